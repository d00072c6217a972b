#!/usr/bin/env python3
"""Runs the programs of docs/COOKBOOK.md, as they are and with a memory limit far below their
input, and holds what they print against the system's sort and against computations in Python.

    test_cookbook.py DIRECTORY-OF-THE-BINARIES

LIBETL_TEST_SEED repeats a run with the seed that it printed, LIBETL_TEST_LIGHT=1 does less.
"""

import collections
import functools
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

SEED = int(os.environ.get("LIBETL_TEST_SEED", "20240611"), 0)
LIGHT = "LIBETL_TEST_LIGHT" in os.environ
SIZE = (1 if LIGHT else 3) << 20  # of an input, in bytes; the limit of "_spilling" is 1 MiB
BINARIES = pathlib.Path()


@functools.lru_cache
def text():
    """Python's own library: real text, some words of which come often."""
    parts, size = [], 0
    for path in sorted(pathlib.Path(os.__file__).parent.glob("*.py")):
        parts.append(path.read_bytes())
        size += len(parts[-1])
        if size > SIZE:
            break
    return b"".join(parts).replace(b"\0", b"")


def rows(seed, groups, count=None, skew=3):
    """Lines "key TAB number": skewed keys, some empty, some that begin as others do."""
    generator = random.Random(SEED + seed)
    lines = []
    for _ in range(count or SIZE // 24):
        group = int(groups * generator.random() ** skew)
        key = b"" if group == 0 else b"key/%x" % (group * 2654435761 % 2**32)
        lines.append(b"%s\t%d" % (key, generator.randrange(-10**12, 10**12)))
    return lines


def joined(lines):
    return b"".join(line + b"\n" for line in lines)


class Cookbook(unittest.TestCase):
    maxDiff = 2000

    def run_recipe(self, name, arguments=(), data=b"", status=0):
        """Both programs of a recipe, which have to print the same."""
        outputs = []
        for program in (name, name + "_spilling"):
            done = subprocess.run([BINARIES / program, *arguments], input=data,
                                  capture_output=True, timeout=120)
            self.assertEqual((status, program), (done.returncode, program), done.stderr[-2000:])
            self.assertEqual(done.stderr == b"", status == 0, done.stderr[-2000:])
            outputs.append(done.stdout)
        self.assert_same(outputs[0], outputs[1])
        return outputs[0]

    def assert_same(self, got, expected):
        if got != expected:
            at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b),
                      min(len(got), len(expected)))
            self.fail(f"sizes {len(got)} and {len(expected)}, different at {at}: "
                      f"{got[at - 40:at + 40]!r}, {expected[at - 40:at + 40]!r}")

    def test_word_count(self):
        for data in (text(), b"", b"one", b"a b a\n\nb c a", b"x" * 256 + b" " + b"y" * 300):
            words = []
            for word in re.findall(rb"[0-9A-Za-z]+", data):
                words += [word[i:i + 256] for i in range(0, len(word), 256)]
            counts = sorted(collections.Counter(words).items(), key=lambda each: (-each[1], each))
            self.assert_same(self.run_recipe("word_count", data=data),
                             joined(b"%d %s" % (count, word) for word, count in counts))

    def test_group_by(self):
        lines = rows(1, 5000)
        groups = collections.defaultdict(list)
        for line in lines:
            key, _, number = line.partition(b"\t")
            groups[key].append(int(number))
        expected = joined(b"%s\t%d\t%d\t%d\t%d" % (key, len(n), sum(n), min(n), max(n))
                          for key, n in sorted(groups.items()))
        self.assert_same(self.run_recipe("group_by", data=joined(lines)), expected)
        self.assert_same(self.run_recipe("group_by", data=b"no number\n"), b"")

    def test_unique(self):
        for data in (text(), b"", b"\n\n", b"b\na\nb\n\na\nb"):
            lines = data.split(b"\n")
            lines = lines[:-1] if lines[-1] == b"" else lines
            self.assert_same(self.run_recipe("unique", data=data), joined(dict.fromkeys(lines)))

    def test_join(self):
        left, right = rows(2, 9000, SIZE // 60, 1), rows(3, 30000, SIZE // 40, 1)
        left += [b"often\t%d" % i for i in range(100)]
        right += [b"often\t%d" % -i for i in range(100)]
        with tempfile.TemporaryDirectory() as directory:
            names = [pathlib.Path(directory) / "left", pathlib.Path(directory) / "right"]
            for each, name in zip((left, right), names):
                name.write_bytes(b"\n".join(each))  # no newline at the end
            by_key = collections.defaultdict(list)
            for line in left:
                by_key[line.partition(b"\t")[0]].append(line.partition(b"\t")[2])
            expected = []
            ordered = sorted((line.partition(b"\t") for line in right), key=lambda row: row[0])
            for key, _, value in ordered:
                expected += [b"%s\t%s\t%s" % (key, each, value) for each in by_key.get(key, ())]
            self.assertGreater(len(expected), 1000)
            self.assert_same(self.run_recipe("join", names), joined(expected))
            names[1].write_bytes(b"")
            self.assert_same(self.run_recipe("join", names), b"")
            self.run_recipe("join", [names[0], directory + "/none"], status=1)

    def test_top_n(self):
        generator = random.Random(SEED + 4)
        lines = [b"%r line %d" % (generator.choice((generator.gauss(0, 1e6),
                                                    generator.randrange(-50, 50))), i)
                 for i in range(SIZE // 30)]
        lines += [b"-0.0 minus", b"0 plus", b"inf", b"-inf", b"nan", b"no number"]
        numbers = [(float(line.split()[0]) if line != b"no number" else 0.0, line)
                   for line in lines if line != b"nan"]
        ordered = [line for _, line in sorted(numbers, key=lambda each: -each[0])]
        for count in (0, 1, 10, 3000, 10**9):
            self.assert_same(self.run_recipe("top_n", [str(count)], joined(lines)),
                             joined(ordered[:count]))

    def test_bulk_index(self):
        lines = rows(5, 40000, SIZE // 40) + [b"only a key", b"z"]
        with tempfile.TemporaryDirectory() as directory:
            file, index = pathlib.Path(directory) / "file", pathlib.Path(directory) / "index"
            file.write_bytes(b"\n".join(lines))
            self.run_recipe("bulk_index", [file, index])
            keys = sorted({line.partition(b"\t")[0] for line in lines})
            self.assertEqual(index.stat().st_size, 8 * len(lines))
            some = random.Random(SEED + 6).sample(keys, 20)
            for key in [keys[0], keys[-1], b"only a key", b"a", b"key/", b"zz", *some]:
                expected = [line for line in lines if line.partition(b"\t")[0] == key]
                self.assert_same(self.run_recipe("bulk_index", [file, index, key]),
                                 joined(expected))
            index.write_bytes(index.read_bytes()[:-3])
            file.write_bytes(b"")
            self.run_recipe("bulk_index", [file, index, b"a"], status=1)
            self.run_recipe("bulk_index", [file, directory], status=1)

    def test_distinct_count(self):
        lines = [b"%s\t%d" % (line.partition(b"\t")[0], int(line.partition(b"\t")[2]) % 50)
                 for line in rows(7, 3000)] + [b"no item", b"a\t", b"a\t", b"a b\tc"]
        items = {line for line in lines if b"\t" in line}
        counts = collections.Counter(line.partition(b"\t")[0] + b"\t" for line in items)
        expected = joined(b"%s%d" % each for each in sorted(counts.items()))
        self.assert_same(self.run_recipe("distinct_count", data=joined(lines)), expected)
        self.assert_same(self.run_recipe("distinct_count"), b"")

    def test_sort_columns(self):
        generator = random.Random(SEED + 8)
        lines = [b"%s\t%.1f\t%d" % (generator.choice((b"", b"a", b"a b", b"ab", b"Zo\xc3\xab",
                                                      b"x" * generator.randrange(99))),
                                    generator.randrange(-20, 20) / 2,
                                    generator.randrange(-9, 9)) for _ in range(SIZE // 40)]
        got = self.run_recipe("sort_columns", data=joined(lines) + b"two\tcolumns\n")
        lines.sort(key=lambda line: int(line.split(b"\t")[2]))
        lines.sort(key=lambda line: line.split(b"\t")[0], reverse=True)
        lines.sort(key=lambda line: float(line.split(b"\t")[1]), reverse=True)
        self.assert_same(got, joined(lines))
        theirs = subprocess.run(["sort", "-s", "-t", "\t", "-k2,2gr", "-k1,1r", "-k3,3n"],
                                input=joined(lines), env=dict(os.environ, LC_ALL="C"),
                                capture_output=True, check=True).stdout
        self.assert_same(got, theirs)

    def test_parallel_load(self):
        lines = text().split(b"\n")[:-1]
        with tempfile.TemporaryDirectory() as directory:
            prefix = directory + "/part"
            for parts in ("1", "3", "64"):
                for program in ("parallel_load", "parallel_load_spilling"):
                    said = subprocess.run([BINARIES / program, prefix, parts],
                                          input=joined(lines), capture_output=True,
                                          check=True).stdout
                    count = int(re.fullmatch(rb"(\d+) parts\n", said).group(1))
                    self.assertLessEqual(count, int(parts))
                    self.assertTrue(count > 1 or parts == "1")
                    got = b"".join(pathlib.Path(f"{prefix}.{i}").read_bytes()
                                   for i in range(count))
                    self.assert_same(got, joined(sorted(lines)))
        self.run_recipe("parallel_load", [prefix, "0"], status=1)
        self.run_recipe("parallel_load", [directory + "/none/part", "2"], b"a\nb\n", status=1)

    def test_sort_parts(self):
        lines = text().split(b"\n")[:-1]
        with tempfile.TemporaryDirectory() as directory:
            names = []
            for i in range(4):
                names.append(f"{directory}/input{i}")
                pathlib.Path(names[-1]).write_bytes(joined(lines[i::4]))
            runs = directory + "/runs"
            os.mkdir(runs)
            self.assert_same(self.run_recipe("sort_parts", [runs, *names]),
                             joined(sorted(lines)))
            self.assert_same(self.run_recipe("sort_parts", [runs]), b"")
            self.assertEqual(os.listdir(runs), [])
            self.run_recipe("sort_parts", [runs, names[0], directory + "/none"], status=1)
            self.run_recipe("sort_parts", [directory + "/none", names[0]], status=1)

    def test_lmdb_load(self):
        if not (BINARIES / "lmdb_load").exists():
            self.skipTest("built without LMDB")
        lines = [line for line in rows(9, 60000) if not line.startswith(b"\t")]
        last = dict(line.split(b"\t") for line in lines)
        expected = joined(b"%s\t%s" % each for each in sorted(last.items()))
        for program in ("lmdb_load", "lmdb_load_spilling"):
            for data, status in ((joined(lines), 0), (b"\tLMDB has no empty keys\n", 1)):
                with tempfile.TemporaryDirectory() as directory:
                    done = subprocess.run([BINARIES / program, directory], input=data,
                                          capture_output=True)
                    self.assertEqual(done.returncode, status, done.stderr)
                    if status == 0:
                        self.assert_same(done.stdout, expected)
                    else:
                        self.assertIn(b"MDB_BAD_VALSIZE", done.stderr)
        self.run_recipe("lmdb_load", ["/nowhere"], status=1)

    def test_transcripts(self):
        """What docs/COOKBOOK.md says that commands print."""
        book = (pathlib.Path(__file__).parent.parent / "docs/COOKBOOK.md").read_text()
        transcripts = re.findall(r"^    \$ .*\n(?:    .*\n)*", book, re.M)
        self.assertGreater(len(transcripts), 9)
        environment = dict(os.environ, LC_ALL="C")
        with tempfile.TemporaryDirectory() as directory:
            for program in BINARIES.iterdir():
                os.symlink(program, f"{directory}/{program.name}")
            for transcript in transcripts:
                if "lmdb_load" in transcript and not (BINARIES / "lmdb_load").exists():
                    continue
                shown = re.sub(r"^    ", "", transcript, flags=re.M)
                printed = ""
                for command in re.findall(r"^\$ (.*)\n", shown, re.M):
                    printed += f"$ {command}\n" + subprocess.run(
                        ["sh", "-c", command], cwd=directory, env=environment, text=True,
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
                self.assertEqual(shown, printed)

    def test_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        inputs = {"word_count": [], "group_by": [], "unique": [], "top_n": ["9"],
                  "distinct_count": [], "sort_columns": []}
        for name, arguments in inputs.items():
            with open("/dev/full", "wb") as full:
                done = subprocess.run([BINARIES / name, *arguments], input=b"a\t1\t2\n",
                                      stdout=full, stderr=subprocess.PIPE)
            self.assertEqual((name, 1), (name, done.returncode))
            self.assertIn(b"No space left", done.stderr)

    def test_full_disk_by_name(self):
        """The recipes that read files, and output above what stdio holds back."""
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        with tempfile.TemporaryDirectory() as directory, open("/dev/full", "wb") as full:
            rows = pathlib.Path(directory) / "rows"
            rows.write_bytes(b"a\tb\n" * 20000 + b"b\t1\n")
            self.run_recipe("bulk_index", [rows, directory + "/index"])
            for name, arguments in (("join", [rows, rows]), ("sort_parts", [directory, rows]),
                                    ("bulk_index", [rows, directory + "/index", "a"]),
                                    ("bulk_index", [rows, directory + "/index", "b"])):
                done = subprocess.run([BINARIES / name, *arguments], stdout=full,
                                      stderr=subprocess.PIPE)
                self.assertEqual((name, 1), (name, done.returncode))
                self.assertIn(b"No space left", done.stderr)

    def test_unreadable_input(self):
        """A directory: opening it works, reading does not."""
        names = {"word_count": [], "group_by": [], "unique": [], "top_n": ["9"],
                 "distinct_count": [], "sort_columns": []}
        with tempfile.TemporaryDirectory() as directory:
            names["parallel_load"] = [directory + "/part", "2"]
            if (BINARIES / "lmdb_load").exists():
                names["lmdb_load"] = [directory]
            for name, arguments in names.items():
                descriptor = os.open(directory, os.O_RDONLY)
                done = subprocess.run([BINARIES / name, *arguments], stdin=descriptor,
                                      capture_output=True)
                os.close(descriptor)
                self.assertEqual((name, 1, b""), (name, done.returncode, done.stdout))
                self.assertIn(b"Is a directory", done.stderr)
            for name, arguments in (("join", [directory, directory]),
                                    ("bulk_index", [directory, directory + "/index"]),
                                    ("sort_parts", [directory, directory])):
                done = subprocess.run([BINARIES / name, *arguments], capture_output=True)
                self.assertEqual((name, 1, b""), (name, done.returncode, done.stdout))
                self.assertIn(directory.encode() + b": ", done.stderr.replace(b"/index:", b":"))
                self.assertIn(b"Is a directory", done.stderr)

    def test_missing_file(self):
        """The message names it, and says why."""
        for name, arguments in (("join", ["/dev/null", "/none"]), ("join", ["/none", "/dev/null"]),
                                ("bulk_index", ["/none", "index"]), ("sort_parts", [".", "/none"])):
            done = subprocess.run([BINARIES / name, *arguments], capture_output=True)
            self.assertEqual((name, 1), (name, done.returncode))
            self.assertRegex(done.stderr, rb"/none.*: No such file")

    def test_usage(self):
        names = ["top_n", "join", "bulk_index", "parallel_load", "sort_parts"]
        names += ["lmdb_load"] if (BINARIES / "lmdb_load").exists() else []
        for command in [[name] for name in names] + [["top_n", "x"], ["join", "a", "b", "c"]]:
            done = subprocess.run([BINARIES / command[0], *command[1:]], capture_output=True,
                                  stdin=subprocess.DEVNULL)
            self.assertEqual((command, 1), (command, done.returncode))
            self.assertIn(b"Usage: %s" % command[0].encode(), done.stderr)


if __name__ == "__main__":
    BINARIES = pathlib.Path(sys.argv.pop(1)).resolve()
    print("LIBETL_TEST_SEED=%d" % SEED)
    unittest.main()
