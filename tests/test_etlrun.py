#!/usr/bin/env python3
"""Runs etlrun on run files that run_files.py writes, right ones and damaged ones, and holds what it
says and how it ends against run_reader.py and Python's own json: no code is shared with it.

    test_etlrun.py PATH-OF-ETLRUN [unittest's arguments]"""
import fcntl
import json
import os
import pty
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # not beside the sources
import run_files
import run_reader
from run_files import BLOCK, FOOTER_SIZE, HEADER_SIZE

SEED = int(os.environ.get("LIBETL_TEST_SEED", "20261130"))
PROGRAM = ""
EXAMPLE = [(b"apple", b"red"), (b"banana", None), (b"cherry", b"")]


def escaped(data):
    return "".join("\\\\" if byte == 0x5C else chr(byte) if 32 <= byte < 127 else "\\x%02x" % byte
                   for byte in data)


def as_text(pairs):
    return "".join("%s\t%s\n" % (escaped(key), "\\N" if value is None else escaped(value))
                   for key, value in pairs).encode()


def as_json(data):
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def random_pairs(generator, count, longest=40, letters=256):
    """Sorted by key, some keys twice, values of every kind."""
    def some_bytes():
        return bytes(generator.randrange(letters) for _ in range(generator.randrange(longest)))
    keys = [some_bytes() for _ in range(count)]
    keys += keys[:count // 10]
    return [(key, None if generator.random() < 0.2 else some_bytes()) for key in sorted(keys)]


class ToolTest(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.random = random.Random(SEED)

    def path(self, name):
        return os.path.join(self.scratch.name, name)

    def file(self, data, name="a.run"):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def run_file(self, pairs, /, name="a.run", **wrong):
        return self.file(run_files.make(pairs, **wrong), name)

    def tool(self, *arguments, **more):
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        return subprocess.run([PROGRAM, *arguments], timeout=300, stdin=subprocess.DEVNULL, **more)

    def expect(self, status, out, err, *arguments, **more):
        """Out and err are texts, in which DIR stands for the scratch directory."""
        done = self.tool(*arguments, **more)
        place = self.scratch.name
        self.assertEqual(
            (status, out, err),
            (done.returncode, (done.stdout or b"").decode().replace(place, "DIR"),
             (done.stderr or b"").decode().replace(place, "DIR")), arguments)


class Info(ToolTest):
    def test_example(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs",
                               "RUN_FORMAT.md"), encoding="utf-8") as page:
            dumped = re.findall(r"^    [0-9a-f]{8}  ((?:[0-9a-f]{2} +)+)", page.read(), re.M)
        data = bytes.fromhex("".join(dumped))
        self.assertEqual(len(data), 226)
        name = self.file(data)
        self.expect(0, """\
DIR/a.run:
  format version  1
  flags           none
  pairs           3
  bytes of keys   17
        of values 3
        of records 26
        of the file 226
  block size      16384
  blocks          1
  longest record  at most 255
  first key       apple
  last key        cherry
""", "", "info", name)
        self.expect(0, as_text(EXAMPLE).decode(), "", "dump", name)
        self.expect(0, "DIR/a.run: ok\n", "", "verify", name)

    def test_json(self):
        pairs = random_pairs(self.random, 900)
        pairs = [(b"\xff" + key, value) for key, value in pairs]
        many = self.run_file(pairs, "many \"\\\xe4.run")
        none = self.run_file([], "none.run")
        done = self.tool("info", "--json", many, none)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        first, second = map(json.loads, done.stdout.splitlines())
        data = run_files.make(pairs)
        records = [run_files.record(*pair) for pair in pairs]
        size = sum(map(len, records))
        self.assertEqual(first, dict(
            file=many, version=1, flags=[], pairs=len(pairs), key_bytes=sum(len(key) for key, _ in pairs),
            value_bytes=sum(len(value or b"") for _, value in pairs), record_bytes=size,
            file_bytes=len(data), block_size=BLOCK, blocks=-(-(size + HEADER_SIZE) // BLOCK),
            record_most=max(map(len, records)), first_key=as_json(pairs[0][0]),
            last_key=as_json(pairs[-1][0])))
        self.assertEqual((second["pairs"], second["first_key"], second["last_key"]),
                         (0, None, None))

    def test_flags(self):
        name = self.run_file(EXAMPLE, flags=1)
        self.assertIn(b"  flags           values-ascend\n", self.tool("info", name).stdout)
        self.assertEqual(json.loads(self.tool("info", "--json", name).stdout)["flags"],
                         ["values-ascend"])

    def test_keys(self):
        cases = [(b"", ""), (b"k" * 64, "k" * 64), (b"k" * 65, "k" * 64 + "... (65 bytes)"),
                 (b"\0\\" * 50000, "\\x00\\\\" * 32 + "... (100000 bytes)")]
        for key, shown in cases:
            done = self.tool("info", self.run_file([(key, None)]))
            self.assertIn("  first key       %s\n  last key        %s\n" % (shown, shown),
                          done.stdout.decode())
        self.assertIn(b"  last key        none\n", self.tool("info", self.run_file([])).stdout)

    def test_damage(self):
        good = self.run_file(EXAMPLE, "good.run")
        bad = bytearray(run_files.make(EXAMPLE))
        bad[70] ^= 1
        done = self.tool("info", self.file(bytes(bad)), good)
        self.assertEqual((done.returncode, done.stderr.decode()), (
            1, "etlrun: %s: damaged: checksum of the block at offset 0 of 226, block 0\n" %
            self.path("a.run")))
        self.assertIn(b"good.run:\n", done.stdout)


class Dump(ToolTest):
    def test_encodings(self):
        every = bytes(range(256))
        texts = ["", "plain", 'quote " and \\ and /', "tab\tnewline\n nul\0 del\x7f \x1f",
                 "\u00e4 \u20ac \U0001f600 \u2028 \ud7ff \ue000 \uffff \U0010ffff"]
        broken = [b"\x80", b"\xc0\xaf", b"\xc1\xbf", b"\xe0\x9f\xbf", b"\xed\xa0\x80",
                  b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff",
                  b"a\xe2\x82", b"\xe2\x28\xa1", b"\xc3", b"\xf0\x9f\x98", b"\xf0\x9f\x28\x80"]
        keys = [text.encode() for text in texts] + broken + [every]
        pairs = sorted((key, value) for key in keys for value in keys + [every[:200]])
        pairs += [(b"\xff\xff", None), (b"\xff\xff", b"\\N"), (b"\xff\xff", b"")]
        name = self.run_file(pairs)
        done = self.tool("dump", name)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(done.stdout, as_text(pairs))
        done = self.tool("dump", "--json", name)
        self.assertEqual(
            [json.loads(line) for line in done.stdout.split(b"\n")[:-1]],
            [{"key": as_json(key), "value": as_json(value)} for key, value in pairs])
        self.expect(0, '{"key":"apple","value":"red"}\n{"key":"banana","value":null}\n'
                    '{"key":"cherry","value":""}\n', "", "dump", "--json",
                    self.run_file(EXAMPLE))

    def test_ranges(self):
        for letters, count in ((2, 300), (256, 3000)):
            pairs = random_pairs(self.random, count, 12 if letters == 2 else 60, letters)
            name = self.run_file(pairs)
            edges = [b"", b"\0", b"\xff" * 9] + [self.random.choice(pairs)[0] for _ in range(6)]
            edges += [edge + b"\0" for edge in edges[3:6]]
            for start in [None] + edges:
                for stop in [None] + self.random.sample(edges, 4):
                    limit = self.random.choice([None, 0, 1, 17, 1 << 63])
                    arguments = [name]
                    arguments += [] if start is None else ["--from=" + escaped(start)]
                    arguments += [] if stop is None else ["--to", escaped(stop)]
                    arguments += [] if limit is None else ["--limit=%d" % limit]
                    wanted = [pair for pair in pairs if (start is None or pair[0] >= start) and
                              (stop is None or pair[0] < stop)]
                    done = self.tool("dump", *arguments)
                    self.assertEqual((done.returncode, done.stderr), (0, b""), arguments)
                    self.assertEqual(done.stdout, as_text(wanted[:limit]), arguments)

    def test_key_arguments(self):
        name = self.run_file([(bytes([byte]), None) for byte in range(256)])
        for text, first in (("\\x0A", 0x0A), ("\\xfF", 0xFF), ("\\\\", 0x5C), ("A", 0x41),
                            ("\u00e4", 0xC4)):  # whose UTF-8 is C3 A4
            self.expect(0, escaped(bytes([first])) + "\t\\N\n", "", "dump", "--limit=1",
                        "--from", text, name)
        for text in ("\\", "a\\", "\\x", "\\x1", "\\x1g", "\\xg1", "\\n", "\\X41", "\\x/0",
                     "\\x@0", "\\x:0", "\\x`0"):
            for option in ("--from=", "--to="):
                self.expect(2, "", "etlrun: '%s' is not a key: a backslash begins \\\\ or \\xHH\n"
                            "Try 'etlrun help dump'.\n" % text, "dump", option + text, name)

    def test_large_records(self):
        pairs = [(b"a", b"v" * (3 << 20)), (b"b" * 70000, None), (b"c", b"\0" * 100)]
        name = self.run_file(pairs)
        self.assertEqual(self.tool("dump", name).stdout, as_text(pairs))
        self.assertEqual(self.tool("dump", "--from=b", name).stdout, as_text(pairs[1:]))

    def test_damage(self):
        """What stands before it is written, and the status tells of it."""
        pairs = [(b"%06d" % i, b"v" * 90) for i in range(20000)]
        data = bytearray(run_files.make(pairs))
        data[1 << 20] ^= 4
        done = self.tool("dump", self.file(bytes(data)))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.decode(), "etlrun: %s: damaged: checksum of the block at "
                         "offset 1048576 of %d, block 64\n" % (self.path("a.run"), len(data)))
        self.assertTrue(as_text(pairs).startswith(done.stdout))
        self.expect(1, "b\t1\n", "etlrun: DIR/a.run: damaged: order of the keys at offset 68 of "
                    "208, block 0\n", "dump", self.run_file([(b"b", b"1"), (b"a", b"2")]))
        self.expect(1, as_text(EXAMPLE).decode(), "etlrun: DIR/a.run: damaged: number of pairs at "
                    "offset 90 of 226\n", "dump", self.run_file(EXAMPLE, pairs=2))


class Verify(ToolTest):
    def test_right(self):
        names, lines = [], ""
        shapes = [[], [(b"", None)], [(b"", b"")] * 3, EXAMPLE, random_pairs(self.random, 4000),
                  [(b"k", b"v" * size) for size in (BLOCK - HEADER_SIZE - 5, BLOCK - 4, 5, BLOCK)],
                  [(b"large", b"v" * (40 * BLOCK)), (b"later", None)],
                  [(b"%04d" % i, None) for i in range(9999)]]
        for i, pairs in enumerate(shapes):
            names.append(self.run_file(pairs, "%d.run" % i))
            lines += "DIR/%d.run: ok\n" % i
        ordered = [(b"j", b"z"), (b"k", None), (b"k", None), (b"k", b""), (b"k", b"a"), (b"k", b"a"),
                   (b"l", b"")]
        names.append(self.run_file(ordered, "ordered.run", flags=1))
        lines += "DIR/ordered.run: ok\n"
        self.expect(0, lines, "", "verify", *names)
        self.expect(0, "", "", "verify", "-q", *names)
        self.expect(0, "", "", "verify", names[0], "--quiet")

    def test_many_blocks(self):
        """More entries than are read of the table at a time."""
        pairs = [(b"%03d" % i, b"v" * (5 * BLOCK)) for i in range(130)]
        data = bytearray(run_files.make(pairs))
        self.expect(0, "DIR/a.run: ok\n", "", "verify", self.file(bytes(data)))
        for block in range(300, 322):
            data[block * BLOCK + 9] ^= 1
        told = "".join("etlrun: DIR/a.run: damaged: checksum of the block at offset %d of %d, "
                       "block %d\n" % (block * BLOCK, len(data), block)
                       for block in range(300, 310))
        self.expect(1, "", told + "etlrun: DIR/a.run: damaged: 12 blocks more\n", "verify",
                    self.file(bytes(data)))

    def every_damage(self, damaged):
        """All are told, each once, and none is called right."""
        names = [self.file(data, "%d" % i) for i, data in enumerate(damaged)]
        good = self.run_file(EXAMPLE, "good.run")
        done = self.tool("verify", *names, good, cwd=self.scratch.name)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.decode(), good + ": ok\n")
        told = re.findall(r"^etlrun: (.*): (?:damaged: .* at offset (\d+) of (\d+)(?:, block 0)?|"
                          r"not a run file, or its beginning is damaged)$",
                          done.stderr.decode(), re.M)
        self.assertEqual([name for name, _, _ in told], names)
        self.assertEqual(len(done.stderr.splitlines()), len(names))
        for name, offset, size in told:
            if not size:
                with open(name, "rb") as file:
                    self.assertNotEqual(file.read(8), run_files.make([])[:8])
                continue
            self.assertEqual(int(size), os.path.getsize(name))
            self.assertLessEqual(int(offset), int(size))
        for data in damaged:
            self.assertFalse(run_files.is_whole(data))

    def test_every_bit(self):
        data = run_files.make(EXAMPLE)
        for bit in range(8):
            flipped = []
            for i in range(len(data)):
                flipped.append(data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1:])
            self.every_damage(flipped)

    def test_other_files(self):
        for data in (b"root:x:0:0:root:/root:/bin/bash\n" * 20, b"hello, run", b"a"):
            for command in ("info", "dump", "verify"):
                self.expect(1, "", "etlrun: DIR/a.run: not a run file, or its beginning is "
                            "damaged\n", command, self.file(data))

    def test_every_length(self):
        data = run_files.make(EXAMPLE)
        self.every_damage([data[:size] for size in range(len(data))] + [data + b"\0"])

    def test_right_checksums(self):
        """Fields that lie, each with the place of the lie."""
        two = [(b"a" * 9000, None), (b"b" * 9000, None)]
        cases = [
            ("unknown version at offset 0 of 226", EXAMPLE, {"head": run_files.header(version=0)}),
            ("unknown block size at offset 0 of 226", EXAMPLE,
             {"head": run_files.header(block=4096)}),
            ("unknown header field at offset 0 of 226", EXAMPLE,
             {"head": run_files.header(reserved=bytes(43) + b"\1")}),
            ("unknown footer field at offset 98 of 226", EXAMPLE, {"flags": 2}),
            ("records end outside the file at offset 98 of 226", EXAMPLE, {"data_end": 1 << 40}),
            ("number of blocks at offset 98 of 226", EXAMPLE, {"blocks": 2}),
            ("number of pairs at offset 98 of 226", EXAMPLE, {"pairs": 1 << 62}),
            ("number of pairs at offset 90 of 226", EXAMPLE, {"pairs": 2}),
            ("number of pairs at offset 90 of 226", EXAMPLE,
             {"pairs": 4, "key_bytes": 0, "value_bytes": 0}),
            ("bytes of keys and values at offset 98 of 226", EXAMPLE, {"key_bytes": 16}),
            ("bytes of keys and values at offset 98 of 226", EXAMPLE, {"value_bytes": 2}),
            ("position of the first record at offset 98 of 226", EXAMPLE, {"first_record": 65}),
            ("position of the last record at offset 98 of 226", EXAMPLE, {"last_record": 81}),
            ("checksum of the table at offset 90 of 226", EXAMPLE, {"table_crc": 1}),
            ("a record longer than the longest at offset 64 of 226, block 0", EXAMPLE,
             {"record_most": 9}),
            ("the longest of no records at offset 72 of 200", [], {"record_most": 1}),
            ("order of the keys at offset 68 of 208, block 0", [(b"b", b"1"), (b"a", b"2")], {}),
            ("order of the keys at offset 68 of 207, block 0", [(b"aa", None), (b"a", b"")],
             {"records": [b"\2\0aa", b"\1\1a"]}),
            ("order of the values at offset 68 of 207, block 0", [(b"k", b"b"), (b"k", b"")],
             {"flags": 1}),
            ("order of the values at offset 67 of 206, block 0", [(b"k", b""), (b"k", None)],
             {"flags": 1}),
            ("the table's first record of a block at offset 90 of 226", EXAMPLE,
             {"firsts": {0: 74}}),
            ("the table's first record of a block at offset 18078 of 18214", two,
             {"firsts": {1: 0}}),
            ("lengths of a record at offset 64 of 206, block 0", [(b"a", None)],
             {"records": [b"\xff" * 6], "key_bytes": 0}),
            ("a record that passes the end of the data at offset 64 of 203, block 0",
             [(b"", None)], {"records": [b"\2\0a"]}),
        ]
        for message, pairs, wrong in cases:
            with self.subTest(message, wrong=wrong):
                data = run_files.make(pairs, **wrong)
                self.assertFalse(run_files.is_whole(data))
                self.expect(1, "", "etlrun: DIR/a.run: damaged: %s\n" % message, "verify",
                            self.file(data))


def merged(runs, rule="keep-all", order_values=False):
    """What merging these lists of pairs gives; None: it is refused."""
    pairs = sorted((pair for run in runs for pair in run), key=lambda pair: pair[0])
    if order_values:
        pairs.sort(key=lambda pair: (pair[0], pair[1] is not None, pair[1] or b""))
    if rule == "keep-all":
        return pairs
    groups = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    if rule == "reject" and len(groups) < len(pairs):
        return None
    joined = {"keep-first": lambda values: values[0], "keep-last": lambda values: values[-1],
              "reject": lambda values: values[0],
              "append": lambda values: None if all(value is None for value in values) else
              b"".join(value or b"" for value in values)}[rule]
    return [(key, joined(values)) for key, values in groups.items()]


class Merge(ToolTest):
    def saved(self, name="out.run"):
        with open(self.path(name), "rb") as file:
            return [(key, value) for _, key, value in run_reader.read_run(file.read())]

    def names(self):
        return sorted(os.listdir(self.scratch.name))

    def test_rules(self):
        runs = [random_pairs(self.random, count, 9, 3) for count in (50, 0, 300, 1, 120)]
        files = [self.run_file(run, "%d.run" % i) for i, run in enumerate(runs)]
        apart = [[(b"%d%04d" % (i % 3, k), b"%d" % i) for k in range(i, 100 * i, 7)]
                 for i in range(1, 7)]  # without a key in two of them
        apart = [[pair for pair in run if pair[0][-1] % 7 == i] for i, run in enumerate(apart)]
        cases = [(runs, files), (apart, [self.run_file(run, "apart%d" % i)
                                         for i, run in enumerate(apart)])]
        for pairs, names in cases:
            for rule in (None, "keep-all", "keep-first", "keep-last", "append", "reject"):
                for order_values in (False, True):
                    arguments = [] if rule is None else ["--duplicates=" + rule]
                    arguments += ["--order-values"] if order_values else []
                    expected = merged(pairs, rule or "keep-all", order_values)
                    done = self.tool("merge", *arguments, *names, "-o", self.path("out.run"))
                    self.assertEqual(done.stdout, b"")
                    if expected is None:
                        self.assertEqual(done.returncode, 1)
                        self.assertRegex(done.stderr.decode(), "^etlrun: %s: duplicate key .*\n$" %
                                         re.escape(self.path("out.run")))
                        self.assertNotIn("out.run", self.names())
                        continue
                    self.assertEqual((done.returncode, done.stderr), (0, b""))
                    self.assertEqual(self.saved(), expected, (rule, order_values))
                    self.expect(0, "DIR/out.run: ok\n", "", "verify", self.path("out.run"))
                    os.unlink(self.path("out.run"))

    def test_large(self):
        """Several times the memory, from files whose ranges overlap and such whose do not."""
        runs = []
        for i in range(10):
            keys = sorted(self.random.randrange(1 << 20) + (i >= 8) * (i << 20)
                          for _ in range(2500))
            runs.append([(b"%08x" % key, self.random.randbytes(self.random.randrange(150)))
                         for key in keys])
        files = [self.run_file(run, "%d.run" % i) for i, run in enumerate(runs)]
        place = self.path("temporary")
        os.mkdir(place)
        for arguments, rule, order_values in (([], "keep-all", False),
                                              (["--order-values"], "keep-all", True),
                                              (["--duplicates", "keep-last"], "keep-last", False)):
            self.expect(0, "", "", "merge", "-S1M", "-T", place, "--force", "-o",
                        self.path("out.run"), *arguments, *files)
            self.assertEqual(self.tool("dump", self.path("out.run")).stdout,
                             as_text(merged(runs, rule, order_values)))
            self.expect(0, "", "", "verify", "-q", self.path("out.run"))
        self.assertEqual(os.listdir(place), [])

    def test_output(self):
        first = self.run_file(EXAMPLE, "first.run")
        second = self.run_file([(b"banana", b"yellow"), (b"date", None)], "second.run")
        out = self.path("out.run")
        with open(first, "rb") as file:
            before = file.read()
        refusal = "etlrun: DIR/first.run: exists already, and is replaced only with --force\n"
        self.expect(3, "", refusal, "merge", "-o", first, second)
        with open(first, "rb") as file:
            self.assertEqual(file.read(), before)
        os.symlink("nowhere", out)
        self.expect(3, "", refusal.replace("first", "out"), "merge", "-o", out, second)
        os.unlink(out)
        self.expect(0, "", "", "merge", "--force", "--output=" + first, "--duplicates=keep-last",
                    first, second)
        self.assertEqual(self.saved("first.run"), [
            (b"apple", b"red"), (b"banana", b"yellow"), (b"cherry", b""), (b"date", None)])
        self.expect(0, "", "", "merge", "--buffer-size", "0", "--temporary-directory=/tmp", "-T",
                    self.scratch.name, "-o", out, self.run_file([], "none.run"))
        self.assertEqual(self.saved(), [])
        self.assertEqual(self.names(), ["first.run", "none.run", "out.run", "second.run"])

    def test_damage(self):
        pairs = [(b"%06d" % i, b"v" * 90) for i in range(400)]
        data = bytearray(run_files.make(pairs))
        size = len(data)
        data[20000] ^= 1
        body = self.file(bytes(data), "body")
        cut = self.file(run_files.make(pairs)[:-1], "cut")
        good = self.run_file(EXAMPLE, "good")
        out = self.path("out.run")
        done = self.tool("merge", "-o", out, good, body)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertTrue(done.stderr.decode().startswith(
            "etlrun: %s: damaged: checksum of the block at offset 16384 of %d, block 1" %
            (body, size)), done.stderr)
        done = self.tool("merge", "-o", out, cut, good, self.path("none"), cut)
        self.assertEqual(done.returncode, 3)
        lines = done.stderr.decode().splitlines()
        self.assertTrue(lines[0].startswith("etlrun: %s: damaged: no footer at offset" % cut))
        self.assertEqual(lines[1],
                         "etlrun: %s: No such file or directory" % self.path("none"))
        self.assertEqual(lines[2:], lines[:1])
        self.assertEqual(self.tool("merge", "-o", out, cut, good).returncode, 1)
        disorder = self.run_file([(b"b", b"1"), (b"a", b"2")], "disorder")
        self.assertEqual(self.tool("merge", "-o", out, disorder).returncode, 1)
        self.assertEqual(self.names(), ["body", "cut", "disorder", "good"])

    def test_trouble(self):
        name = self.run_file([(b"%06d" % i, b"v" * 90) for i in range(4000)])
        out = self.path("out.run")
        limit = (100000, 100000)
        done = self.tool("merge", "-o", out, name, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, limit))
        self.assertEqual((done.returncode, done.stdout), (3, b""))
        self.assertRegex(done.stderr.decode(), r"^etlrun: .*File too large.*\n$")
        for arguments in (["-o", self.path("none/out")], ["-o", out, "-T", self.path("none")],
                          ["-o", self.scratch.name, "--force"], ["-o", out, self.scratch.name]):
            done = self.tool("merge", *arguments, name)
            self.assertEqual((done.returncode, done.stdout), (3, b""))
            self.assertRegex(done.stderr.decode(), r"^etlrun: .+: .+\n$")
        self.assertEqual(self.names(), ["a.run"])

    def test_many_files(self):
        """More than there may be descriptors."""
        runs = [[(b"%04d" % key, b"%d" % i) for key in range(i % 7, 900, i + 1)] for i in range(60)]
        files = [self.run_file(run, "%d.run" % i) for i, run in enumerate(runs)]
        self.expect(0, "", "", "merge", "-o", self.path("out.run"), *files,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24)))
        self.assertEqual(self.saved(), merged(runs))

    def test_usage(self):
        name = self.run_file(EXAMPLE)
        end = "Try 'etlrun help merge'.\n"
        for message, arguments in (
                ("no output was given", [name]), ("no file was given", ["-o", name + "x"]),
                ("'reduce' is not a rule for duplicates", ["--duplicates=reduce", name]),
                ("'many' is not a size", ["-S", "many", name]),
                ("'1X' is not a size", ["-S", "1X", name]),
                ("unrecognized option '--json'", ["--json", name])):
            self.expect(2, "", "etlrun: %s\n%s" % (message, end), "merge", *arguments)

    def test_interrupt(self):
        """Once progress was shown: it is in the midst of the work."""
        name = self.run_file([(b"%06d" % i, b"v" * 190) for i in range(5500)])
        os.mkdir(self.path("temporary"))
        process = subprocess.Popen([PROGRAM, "merge", "--progress", "-T", self.path("temporary"),
                                    "-o", self.path("out.run"), *[name] * 900],
                                   stderr=subprocess.PIPE)
        shown = process.stderr.read(20)
        process.send_signal(signal.SIGINT)
        shown += process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(60), 130, shown)
        self.assertRegex(shown, rb"^(\r\x1b\[Ketlrun: (loading|merging) [^\r]* pairs, [^\r]*)+"
                         rb"\r\x1b\[K$")
        self.assertEqual(self.names(), ["a.run", "temporary"])
        self.assertEqual(os.listdir(self.path("temporary")), [])


class CommandLine(ToolTest):
    def test_usage(self):
        name = self.run_file(EXAMPLE)
        for command in ("info", "dump", "verify"):
            end = "Try 'etlrun help %s'.\n" % command
            self.expect(2, "", "etlrun: unrecognized option '--nonsense'\n" + end, command,
                        "--nonsense", name)
            self.expect(2, "", "etlrun: invalid option -- 'x'\n" + end, command, "-x", name)
            self.expect(2, "", "etlrun: no file was given\n" + end, command)
        end = "Try 'etlrun help dump'.\n"
        self.expect(2, "", "etlrun: more than one file was given\n" + end, "dump", name, name)
        for number in ("", "-1", "+1", " 1", "1x", "18446744073709551616"):
            self.expect(2, "", "etlrun: '%s' is not a number of pairs\n%s" % (number, end),
                        "dump", "--limit=" + number, name)
        self.expect(2, "", "etlrun: no such command: nonsense\nTry 'etlrun --help'.\n", "nonsense")
        self.expect(2, "", "etlrun: no such command: nonsense\nTry 'etlrun --help'.\n", "help",
                    "nonsense")
        done = self.tool()
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"Usage: etlrun COMMAND", done.stderr)

    def test_help(self):
        whole = self.tool("--help")
        self.assertEqual((whole.returncode, whole.stderr), (0, b""))
        self.assertIn(b"Usage: etlrun COMMAND", whole.stdout)
        for same in (["help"], ["-h"]):
            self.assertEqual(self.tool(*same).stdout, whole.stdout)
        commands = re.findall(rb"^  ([a-z]+)  ", whole.stdout, re.M)
        self.assertEqual(commands, [b"info", b"dump", b"verify", b"merge"])
        for command in commands:
            shown = self.tool("help", command.decode())
            self.assertEqual((shown.returncode, shown.stderr), (0, b""))
            self.assertIn(b"Usage: etlrun " + command, shown.stdout)
            self.assertEqual(self.tool(command.decode(), "--help").stdout, shown.stdout)
            self.check_manual(command, shown.stdout)
        version = self.tool("--version").stdout.decode()
        self.assertRegex(version, r"^etlrun \d+\.\d+\.\d+\n$")

    def check_manual(self, command, shown):
        """Every option of the help stands in the manual page."""
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools",
                               "etlrun.1"), "rb") as page:
            manual = page.read()
        self.assertIn(b".It Cm " + command, manual)
        options = re.findall(rb"--([a-z-]+)", shown)
        self.assertIn(b"help", options)
        for option in options:
            self.assertIn(b"Fl -" + option, manual)

    def test_trouble(self):
        good = self.run_file(EXAMPLE, "good.run")
        bad = self.file(run_files.make(EXAMPLE)[:-1], "bad.run")
        os.mkdir(self.path("dir"))
        os.mkfifo(self.path("pipe"))
        says = {
            "dir": "Is a directory", "pipe": "not a regular file", "none": "No such file or "
            "directory"}
        for command in ("info", "dump", "verify"):
            for name, what in says.items():
                self.expect(3, "", "etlrun: DIR/%s: %s\n" % (name, what), command, self.path(name))
        self.expect(3, "DIR/good.run: ok\n", "etlrun: DIR/none: No such file or directory\n"
                    "etlrun: DIR/bad.run: damaged: no footer at offset 97 of 225\n", "verify",
                    self.path("none"), bad, good)
        self.expect(1, "", "etlrun: DIR/bad.run: damaged: no footer at offset 97 of 225\n",
                    "info", bad)
        newer = self.run_file(EXAMPLE, "newer.run", head=run_files.header(version=2))
        done = self.tool("verify", newer)
        self.assertEqual((done.returncode, done.stdout), (3, b""))
        self.assertRegex(done.stderr.decode(), "^etlrun: %s: has version 2 of the format, and "
                         r"this libetl \(.*\) reads version 1: take a newer libetl\n$" % newer)

    def test_output_fails(self):
        large = self.run_file([(b"%06d" % i, b"v" * 50) for i in range(20000)])
        small = self.run_file(EXAMPLE, "small.run")
        lines = (["dump", large], ["dump", small], ["info", small], ["verify", small], ["--help"],
                 ["--version"], ["help", "dump"])
        for arguments in lines:
            with open("/dev/full", "wb") as full:
                self.expect(3, "", "etlrun: standard output: No space left on device\n",
                            *arguments, stdout=full)
            closed = self.tool(*arguments, stdout=None, preexec_fn=lambda: os.close(1))
            self.assertEqual((closed.returncode, closed.stderr),
                             (3, b"etlrun: standard output: Bad file descriptor\n"))

    def test_closed_standard_error(self):
        """The file must not come to stand where complaints are written."""
        bad = self.file(run_files.make(EXAMPLE)[:-1])
        done = self.tool("verify", bad, stderr=None, preexec_fn=lambda: os.close(2))
        self.assertEqual(done.returncode, 1)
        with open(bad, "rb") as file:
            self.assertEqual(file.read(), run_files.make(EXAMPLE)[:-1])

    def test_reader_went_away(self):
        large = self.run_file([(b"%06d" % i, b"v" * 50) for i in range(20000)])
        for ignored in (False, True):
            process = subprocess.Popen(
                [PROGRAM, "dump", large], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN if ignored
                                                 else signal.SIG_DFL), restore_signals=False)
            process.stdout.read(10)
            process.stdout.close()
            self.assertEqual(process.stderr.read(), b"")
            process.stderr.close()
            self.assertEqual(process.wait(60), 128 + signal.SIGPIPE)


class Watched(ToolTest):
    def large(self):
        return self.run_file([(b"%06d" % i, b"v" * 90) for i in range(12000)])

    def on_terminal(self, *arguments, stdout=subprocess.PIPE):
        """Status, and what came to standard error, a terminal; with stdout None that too."""
        try:
            ours, theirs = pty.openpty()
        except OSError as error:  # a root directory without /dev/pts
            self.skipTest(str(error))
        process = subprocess.Popen([PROGRAM, *arguments], stderr=theirs,
                                   stdout=theirs if stdout is None else subprocess.DEVNULL)
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                piece = b""
            if not piece:
                break
            shown += piece
        os.close(ours)
        return process.wait(60), shown.decode()

    def test_progress(self):
        name = self.large()
        for command in ("verify", "dump"):
            status, shown = self.on_terminal(command, name)
            self.assertEqual(status, 0)
            lines = re.findall(r"\r\x1b\[K(etlrun: %s: [\d.]+ [KM]iB of 1\.1 MiB, \d+ %%)" %
                               re.escape(name), shown)
            self.assertGreaterEqual(len(lines), 1)
            self.assertEqual("".join("\r\x1b[K" + line for line in lines) + "\r\x1b[K", shown
                             if command == "verify" else shown.replace("\r\x1b[K" * 2, "\r\x1b[K"))
            self.assertEqual(self.on_terminal(command, "--no-progress", name), (0, ""))
        self.assertNotIn("etlrun", self.on_terminal("dump", "--limit=11900", name, stdout=None)[1])
        self.assertIn("etlrun", self.on_terminal("dump", "--progress", name, stdout=None)[1])

    def test_no_terminal(self):
        self.assertEqual(self.tool("verify", self.large()).stderr, b"")
        shown = self.tool("verify", "--progress", self.path("a.run")).stderr
        self.assertRegex(shown, rb"^\r\x1b\[Ketlrun: .*%\r\x1b\[K$")

    def interrupted(self, process):
        """Until it ends: it may be told before it waits for what never comes."""
        def catches():
            with open("/proc/%d/status" % process.pid) as file:
                caught = re.search(r"^SigCgt:\s*(\w+)", file.read(), re.M)
            return int(caught.group(1), 16) & 1 << (signal.SIGINT - 1)
        while process.poll() is None and not catches():
            time.sleep(0.01)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.02)
        return process.returncode

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "needs /proc")
    def test_interrupt(self):
        """While it waits for a full pipe: dump for its output, verify for its progress."""
        name = self.large()
        full, into = os.pipe()
        fcntl.fcntl(into, fcntl.F_SETFL, os.O_NONBLOCK)
        try:
            while os.write(into, bytes(4096)):
                pass
        except BlockingIOError:
            pass
        fcntl.fcntl(into, fcntl.F_SETFL, 0)
        process = subprocess.Popen([PROGRAM, "dump", name], stdout=into, stderr=subprocess.PIPE)
        self.assertEqual(self.interrupted(process), 130)
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()
        process = subprocess.Popen([PROGRAM, "verify", "--progress", name, name],
                                   stdout=subprocess.PIPE, stderr=into)
        self.assertEqual(self.interrupted(process), 130)
        self.assertEqual(process.stdout.read(), b"")
        process.stdout.close()
        os.close(into)
        os.close(full)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    print("seed", SEED, flush=True)
    unittest.main()
