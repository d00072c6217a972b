#!/usr/bin/env python3
"""Runs the example programs on real input and holds their output against the system's sort and
against a computation in Python that shares no code with them.

    test_examples.py DIRECTORY-OF-THE-BINARIES [LIBETL.SO]

Prints a line for each check that held. Exit status 1 when one did not.
"""

import collections
import itertools
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
SEED = 20240611
failures = 0


def check(name, good, detail=""):
    global failures
    if good:
        print("ok   " + name)
    else:
        failures += 1
        print("FAIL " + name + (": " + str(detail)[:2000] if detail != "" else ""))
    sys.stdout.flush()


def run(arguments, data=b"", **more):
    return subprocess.run(arguments, input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120, **more)


def system_sort(options, data):
    environment = dict(os.environ, LC_ALL="C")
    done = run(["sort"] + options, data, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def first_difference(a, b):
    if a == b:
        return ""
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return "sizes %d and %d, first difference at %d: %r, %r" % (
        len(a), len(b), at, a[max(at - 20, 0):at + 20], b[max(at - 20, 0):at + 20])


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


# ---- sort_lines


def all_lines(alphabet, longest):
    for size in range(longest + 1):
        for letters in itertools.product(alphabet, repeat=size):
            yield bytes(letters)


def test_exhaustive(program):
    """Every line over a tiny alphabet, twice, shuffled: the reverse encoding has no gap."""
    alphabets = [([0, 1], 7), ([0, 1, 2], 5), ([0, 1, 2, 0xFD, 0xFE, 0xFF], 4), ([97, 98], 7)]
    for alphabet, longest in alphabets:
        lines = list(all_lines(alphabet, longest)) * 2
        random.Random(SEED).shuffle(lines)
        data = b"".join(line + b"\n" for line in lines)
        for options in ([], ["-r"], ["-u"], ["-ru"]):
            expected = sorted(set(lines) if "u" in "".join(options) else lines,
                              reverse="r" in "".join(options))
            expected = b"".join(line + b"\n" for line in expected)
            got = run([program] + options, data).stdout
            good = got == expected == system_sort(options, data)
            check("sort_lines %s: all lines over %s up to %d bytes" %
                  (" ".join(options) or "-", alphabet, longest), good,
                  first_difference(got, expected))


def random_lines(size, generator):
    """Text as it comes: few words and many, long common prefixes, empty lines, any byte."""
    lines, total = [], 0
    while total < size:
        kind = generator.random()
        if kind < 0.6:
            line = b"%012x payload %d" % (generator.getrandbits(48), total % 1000)
        elif kind < 0.8:
            line = b"/usr/share/a/common/prefix/" + b"%d" % generator.randrange(3000)
        elif kind < 0.9:
            line = generator.randbytes(generator.randrange(40)).replace(b"\n", b"\0")
        elif kind < 0.9998:
            line = b"x" * generator.randrange(3)
        else:
            line = b"y" * generator.randrange(100000)
        lines.append(line)
        total += len(line) + 1
    return b"\n".join(lines)  # and no newline at the end


def test_spilling(program, directory):
    data = random_lines(5 * MIB, random.Random(SEED + 1))
    path = write(directory + "/random", data)
    for options in ([], ["-r"], ["-u"], ["-r", "-u"]):
        expected = system_sort(options, data)
        done = run([program] + options + ["-S", "2M", "-T", directory, "--stats", path])
        check("sort_lines %s -S 2M over 5 MB" % " ".join(options),
              done.returncode == 0 and done.stdout == expected,
              done.stderr.decode() + first_difference(done.stdout, expected))
        runs = re.search(rb"(\d+) runs", done.stderr)
        check("... and it spilled", runs is not None and int(runs.group(1)) > 1, done.stderr)
        again = run([program, "-c"] + options, done.stdout)
        check("... and -c agrees", again.returncode == 0, again.stderr)
    data = data.replace(b"\n", b"\0")
    done = run([program, "-z"], data)
    check("sort_lines -z", done.stdout == system_sort(["-z"], data), done.stderr)


def test_long_lines(program, directory):
    """Lines larger than all memory that is allowed, among short ones, and across files."""
    generator = random.Random(SEED + 2)
    lines = [generator.randbytes(9 * MIB).replace(b"\n", b"\1"), b"", b"\0", b"\1",
             b"\0" * (3 * MIB), b"\0" * (3 * MIB + 1), b"b" * MIB, b"b" * (MIB - 1), b"a"]
    lines += [b"%d" % i for i in range(1000)]
    first = write(directory + "/long1", b"\n".join(lines))
    second = write(directory + "/long2", b"\n".join(reversed(lines)))
    data = read(first) + b"\n" + read(second)
    for options in ([], ["-r"], ["-ru"]):
        done = run([program, "-S4M", "-T", directory] + options + [first, second])
        expected = system_sort(options, data)
        check("sort_lines %s with lines larger than -S" % " ".join(options),
              done.returncode == 0 and done.stdout == expected,
              done.stderr.decode() + first_difference(done.stdout, expected))


def test_options(program, directory):
    a = write(directory + "/a", b"c\na\nb")
    b = write(directory + "/b", b"b\n\nd\n")
    minus = write(directory + "/-r", b"2\n1\n")
    out = directory + "/out"
    cases = [
        ([a, b], b"", b"\na\nb\nb\nc\nd\n"),
        ([a, "-r", b, "-u"], b"", b"d\nc\nb\na\n\n"),
        (["--reverse", "--unique", a, a], b"", b"c\nb\na\n"),
        (["-ruS64M", "--", a], b"", b"c\nb\na\n"),
        (["-S", "70000b", "-"], b"z\ny", b"y\nz\n"),
        ([a, "-"], b"z\ny", b"a\nb\nc\ny\nz\n"),
        ([], b"", b""),
        ([], b"\n", b"\n"),
        ([], b"\n\n", b"\n\n"),
        (["-u"], b"\n\n", b"\n"),
        ([], b"one", b"one\n"),
        ([], b"b\0a\nb\0\nb\n", b"b\nb\0\nb\0a\n"),
        (["--buffer-size=2M", "--temporary-directory=" + directory, "--", "-r"], b"", b"1\n2\n"),
    ]
    for arguments, data, expected in cases:
        done = run([program] + arguments, data, cwd=directory)
        check("sort_lines %s < %r" % (" ".join(arguments).replace(directory, "."), data),
              done.returncode == 0 and done.stdout == expected and done.stderr == b"",
              (done.stdout, done.stderr))
    done = run([program, "--output=" + out, a])
    check("sort_lines --output", done.returncode == 0 and read(out) == b"a\nb\nc\n", done.stderr)
    os.chmod(minus, 0o640)
    os.symlink(minus, directory + "/link")
    done = run([program, "-o", directory + "/link", minus, a])
    check("sort_lines -o onto an input, through a link, keeps its mode",
          done.returncode == 0 and read(minus) == b"1\n2\na\nb\nc\n" and
          os.path.islink(directory + "/link") and os.stat(minus).st_mode & 0o777 == 0o640,
          done.stderr)
    helped = run([program, "--help"])
    check("sort_lines --help", helped.returncode == 0 and b"--reverse" in helped.stdout)


def test_check(program, directory):
    path = write(directory + "/checked", b"a\nb\nb\nd\nc\ne\n")
    name = path.encode()
    cases = [
        (["-c", path], 1, b"sort_lines: " + name + b":5: disorder: c\n"),
        (["--check", "-u", path], 1, b"sort_lines: " + name + b":3: disorder: b\n"),
        (["-cr", path], 1, b"sort_lines: " + name + b":2: disorder: b\n"),
        (["-C", path], 1, b""),
        (["--check=quiet", path], 1, b""),
        (["-c", directory + "/none"], 2, None),
        (["-c", path, path], 2, None),
    ]
    for arguments, status, text in cases:
        done = run([program] + arguments)
        label = "sort_lines " + " ".join(arguments).replace(directory, ".")
        check(label, done.returncode == status and (text is None or done.stderr == text),
              (done.returncode, done.stderr))
        if text is not None:
            theirs = run(["sort"] + arguments, env=dict(os.environ, LC_ALL="C"))
            check("... as sort does", theirs.returncode == done.returncode and
                  theirs.stderr.replace(b"sort:", b"sort_lines:") == done.stderr, theirs.stderr)
    check("sort_lines -c of nothing", run([program, "-c"]).returncode == 0)
    check("sort_lines -c of a prefix", run([program, "-c"], b"a\na\0\nab").returncode == 0)
    check("sort_lines -cr of a prefix", run([program, "-cr"], b"ab\na\0\na").returncode == 0)


def leftovers(directory):
    return [name for name in os.listdir(directory) if name.startswith("kept.")]


def test_trouble(program, directory):
    small = write(directory + "/small", b"b\na\n")
    big = write(directory + "/big", b"".join(b"line %d\n" % (i * 7919 % 300000)
                                             for i in range(300000)))
    kept = write(directory + "/kept", b"the old content\n")
    for arguments in (["--nonsense"], ["-S", "many"], ["-S", "1X"], [directory + "/none"],
                      [small, directory + "/none"], [directory],
                      ["-T", directory + "/none", small], ["-o", directory + "/none/out", small]):
        done = run([program] + arguments)
        check("sort_lines %s is trouble" % " ".join(arguments).replace(directory, "."),
              done.returncode == 2 and done.stderr != b"" and done.stdout == b"",
              (done.returncode, done.stderr))
    if os.path.exists("/dev/full"):
        for arguments in (["-o", "/dev/full", small], ["-o", "/dev/full", big]):
            done = run([program] + arguments)
            check("sort_lines on a full disk",
                  done.returncode == 2 and b"No space left" in done.stderr, done.stderr)
        with open("/dev/full", "wb") as full:
            done = subprocess.run([program, small], stdout=full, stderr=subprocess.PIPE)
        check("sort_lines > full disk", done.returncode == 2 and b"No space" in done.stderr)

    def tiny_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))

    done = run([program, "-o", kept, big], preexec_fn=tiny_files)
    check("sort_lines -o that fails leaves the old file and nothing else",
          done.returncode == 2 and read(kept) == b"the old content\n" and not leftovers(directory),
          (done.returncode, done.stderr, leftovers(directory)))

    process = subprocess.Popen([program, big], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(10)
    process.stdout.close()
    message = process.stderr.read()
    process.stderr.close()
    check("sort_lines | head", process.wait() == 2 and b"Broken pipe" in message, message)

    process = subprocess.Popen([program, "-o", kept], stdin=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdin.write(b"some\nlines\n")
    process.stdin.flush()
    deadline = time.monotonic() + 10
    while not leftovers(directory) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    status = process.wait(timeout=20)
    process.stdin.close()
    process.stderr.close()
    check("sort_lines -o ended by a signal cleans up",
          status == -signal.SIGTERM and not leftovers(directory) and
          read(kept) == b"the old content\n", (status, leftovers(directory)))


def anonymous_memory(process_id):
    try:
        with open("/proc/%d/status" % process_id) as status:
            found = re.search(r"RssAnon:\s*(\d+)", status.read())
            return int(found.group(1)) * 1024 if found else 0
    except OSError:
        return 0


def test_memory(program, directory):
    if any(mark in read(program) for mark in (b"__asan_init", b"__tsan_init", b"__msan_init")):
        print("skip sort_lines memory: a sanitizer's memory is not the program's")
        return
    generator = random.Random(SEED + 3)
    path = directory + "/memory"
    with open(path, "wb") as file:
        for _ in range(24):
            file.write(generator.randbytes(MIB // 2).hex().encode()[:MIB - 1] + b"\n")
    split = directory + "/split"  # the same in short lines
    with open(split, "wb") as file:
        data = read(path)
        file.write(b"\n".join(data[i:i + 80].replace(b"\n", b"-")
                              for i in range(0, len(data), 80)))
    for options in ([], ["-r"]):
        for limit in (3 * MIB, 12 * MIB):
            out = directory + "/memory.out"
            process = subprocess.Popen([program, "-S", "%db" % limit, "-T", directory, "-o", out,
                                        split] + options)
            peak = 0
            while process.poll() is None:
                peak = max(peak, anonymous_memory(process.pid))
                time.sleep(0.001)
            bound = limit * 1.1 + 4 * MIB
            check("sort_lines %s -S %d MiB over 24 MB: %.1f MiB anonymous, at most %.1f" %
                  (" ".join(options), limit // MIB, peak / MIB, bound / MIB),
                  process.returncode == 0 and 0 <= peak <= bound)
            done = run([program, "-C", out] + options)
            check("... in order and complete", done.returncode == 0 and
                  os.path.getsize(out) == os.path.getsize(split) + 1)


# ---- word_index


def make_tree(directory):
    """Python's own library as text, and what a walk may stumble over."""
    tree = directory + "/tree"
    os.makedirs(tree + "/deep/er/est")
    source = os.path.dirname(os.__file__)
    total = 0
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        if name.endswith(".py") and os.path.isfile(path) and total < 3 * MIB:
            shutil.copy(path, tree + ("/deep/er/" if total % 3 == 0 else "/") + name)
            total += os.path.getsize(path)
    write(tree + "/empty", b"")
    write(tree + "/deep/binary", random.Random(SEED + 4).randbytes(300000))
    write(tree + "/deep/er/est/long", b" ".join(b"w" * n for n in (254, 255, 256, 257, 100000)) +
          b" 12ab3 _ x" + b"9" * 254 + b" end")
    write(tree + "/edge", b"-" * 65530 + b"across_blocks" + b"+" * 65523 + b"Z")
    os.symlink("..", tree + "/deep/loop")
    os.symlink("deep/binary", tree + "/link")
    os.mkfifo(tree + "/pipe")
    return tree


def walk(path):
    """Regular files in the order of their names, no links followed."""
    for name in sorted(os.listdir(path)):
        below = path + b"/" + name
        if os.path.islink(below):
            continue
        if os.path.isdir(below):
            yield from walk(below)
        elif os.path.isfile(below):
            yield below


def words_of(files):
    index = collections.defaultdict(list)
    for number, path in enumerate(files):
        for match in re.finditer(rb"[A-Za-z_][A-Za-z0-9_]*", read(path)):
            if len(match.group()) <= 255:
                index[match.group()].append((number, match.start()))
    return index


class IndexFile:
    """A reader of its own, from the description of the format."""

    def __init__(self, path):
        self.data, self.at = read(path), 8
        assert self.data[:8] == b"WORDIDX1"
        self.files = list(iter(self.string, b""))
        self.words = []
        for word in iter(self.string, b""):
            places, last = [], -1
            for distance in iter(self.number, 0):
                last += distance
                places.append((last >> 40, last & (1 << 40) - 1))
            self.words.append((word, places))
        self.totals = [self.number() for _ in range(3)]
        assert self.at == len(self.data)

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def string(self):
        size = self.number()
        self.at += size
        return self.data[self.at - size:self.at]


def test_word_index(program, directory):
    tree = make_tree(directory)
    files = list(walk(tree.encode()))
    expected = words_of(files)
    places = sum(len(found) for found in expected.values())
    out = directory + "/index"
    done = run([program, "-S", "1M", "-T", directory, "-n", "25", "-o", out, tree])
    check("word_index over %d files, %d words" % (len(files), places), done.returncode == 0,
          done.stderr)
    if done.returncode != 0:
        return
    index = IndexFile(out)
    check("... its files", index.files == files)
    check("... its words, in order", [word for word, _ in index.words] == sorted(expected))
    check("... its places", dict(index.words) == expected)
    check("... its totals", index.totals == [len(files), places, len(expected)], index.totals)
    text = done.stdout.decode()

    def reported(name):
        found = re.search(r"^%s +([\d,]+)" % name, text, re.M)
        return int(found.group(1).replace(",", "")) if found else None

    check("... its report", reported("files") == len(files) and reported("words") == places and
          reported("distinct words") == len(expected), text)
    check("... and it spilled", (reported("runs") or 0) > 1, text)
    top = sorted(expected, key=lambda word: (-len(expected[word]), word))[:25]
    shown = [(int(count.replace(",", "")), word) for count, word in
             re.findall(r"^ +([\d,]+) ([A-Za-z_]\w*)$", text, re.M)]
    check("... the most frequent words",
          shown == [(len(expected[word]), word.decode()) for word in top], shown)
    again = directory + "/index2"
    done = run([program, "-S64M", "-o", again, tree])
    check("word_index in more memory gives the same file",
          done.returncode == 0 and read(again) == read(out), done.stderr)
    for word in (b"import", b"across_blocks", b"end", b"_", b"Z"):
        done = run([program, "-o", out, "-f", word])
        check("word_index -f " + word.decode(), done.returncode == 0 and done.stdout ==
              b"".join(b"%s:%d\n" % (files[file], at) for file, at in expected[word]))
    check("word_index -f of no word", run([program, "-o", out, "-f", "1"]).returncode == 1)
    damaged = write(directory + "/damaged", read(out)[:-3])
    check("word_index -f in a damaged index",
          run([program, "-o", damaged, "-f", "zzzzzz"]).returncode in (1, 2) and
          run([program, "-o", tree + "/edge", "-f", "a"]).returncode == 2)
    done = run([program, "-o", out, tree + "/empty"])
    check("word_index of nothing", done.returncode == 0 and IndexFile(out).totals == [1, 0, 0])
    for arguments in (["--nonsense"], ["-S", "x"], [directory + "/none"],
                      ["-T", directory + "/none", tree], ["-o", directory + "/none/x", tree],
                      ["-f", "import", out]):
        done = run([program] + arguments, cwd=directory)
        check("word_index %s is trouble" % " ".join(arguments).replace(directory, "."),
              done.returncode == 2 and done.stderr != b"", (done.returncode, done.stderr))
    check("word_index --help", b"Usage" in run([program, "--help"]).stdout)


# ---- parallel_index


def index_text(files):
    """What parallel_index writes: a line for each word, with the places of each file."""
    lines = []
    for word, places in sorted(words_of(files).items()):
        line, last = [word], None
        for number, offset in places:
            line.append(b",%d" % offset if number == last else
                        b" %s:%d" % (files[number], offset))
            last = number
        lines.append(b"".join(line) + b"\n")
    return b"".join(lines)


def test_parallel_index(program, directory):
    tree = directory + "/tree"
    files = list(walk(tree.encode()))
    expected = index_text(files)
    out = directory + "/words.txt"
    for threads, memory in ((1, "1M"), (2, "2M"), (4, "4M"), (2, "64M"), (4, "256M")):
        done = run([program, "-j", str(threads), "-S", memory, "-T", directory, "--stats",
                    "-o", out, tree])
        check("parallel_index -j %d -S %s" % (threads, memory), done.returncode == 0 and
              read(out) == expected, done.stderr.decode() + first_difference(read(out), expected))
        runs = re.search(rb"(\d+) runs", done.stderr)
        check("... and it %s" % ("spilled" if len(memory) == 2 else "did not spill"),
              runs and (int(runs.group(1)) > 0) == (len(memory) == 2), done.stderr)
    for threads in (1, 2, 4):
        for parts in (1, 2, 4):
            done = run([program, "-j%d" % threads, "-p%d" % parts, "-S4M", "-T", directory,
                        "--verify", "-o", out, tree])
            written = b"".join(read("%s.%d" % (out, i + 1)) for i in range(parts))
            check("parallel_index -j %d -p %d --verify" % (threads, parts),
                  done.returncode == 0 and written == expected and done.stderr == b"",
                  done.stderr.decode() + first_difference(written, expected))
    sizes = [os.path.getsize("%s.%d" % (out, i + 1)) for i in range(4)]
    check("... all parts have something", min(sizes) > 0, sizes)
    done = run([program, "-p", "3", "--verify", "-o", out, tree + "/empty"])
    check("parallel_index of nothing", done.returncode == 0 and
          [read("%s.%d" % (out, i + 1)) for i in range(3)] == [b"", b"", b""], done.stderr)
    write(out, b"the old content")
    for arguments in (["--nonsense"], ["-S", "x"], ["-j", "0"], ["-j", "65"], ["-p", "1x"],
                      ["--verify", tree], [directory + "/none"], ["-T", directory + "/none", tree],
                      ["-o", directory + "/none/x", tree]):
        done = run([program, "-o", out] + arguments, cwd=directory)
        check("parallel_index %s is trouble" % " ".join(arguments).replace(directory, "."),
              done.returncode == 2 and done.stderr != b"" and read(out) == b"the old content",
              (done.returncode, done.stderr))
    if os.path.exists("/dev/full"):
        done = run([program, "-o", "/dev/full", tree])
        check("parallel_index on a full disk",
              done.returncode == 2 and b"No space left" in done.stderr, done.stderr)
    check("parallel_index --help", b"Usage" in run([program, "--help"]).stdout)


# ---- sort_pairs, in C++ and in Python


def test_sort_pairs(name, command, directory):
    """Against Python's sort, which is stable too; more pairs than the C++ one's memory holds."""
    generator = random.Random(SEED + 40)
    pairs = [(b"%x" % generator.randrange(20000), b"%d" % i) for i in range(60000)]
    pairs += [(b"", b"first"), (b"", b""), (b"zz", b""), (b"wide", b"w" * (20 * MIB))]
    data = b"".join(b"%s\t%s\n" % pair for pair in pairs)
    expected = b"".join(b"%s\t%s\n" % pair for pair in sorted(pairs, key=lambda pair: pair[0]))
    environment = dict(os.environ, TMPDIR=directory)
    done = run(command, data, env=environment)
    check(name, done.returncode == 0 and done.stdout == expected,
          done.stderr.decode() + first_difference(done.stdout, expected))
    check(name + " of nothing", run(command).stdout == b"" and run(command).returncode == 0)
    done = run(command, data, env=dict(os.environ, TMPDIR=directory + "/none"))
    check(name + " says what libetl says", done.returncode == 1 and b"/none" in done.stderr,
          done.stderr)
    return pairs


def test_sort_pairs_cpp(program, directory):
    pairs = test_sort_pairs("sort_pairs", [program], directory)
    data = b"".join(b"%s\t%s\n" % pair for pair in pairs)
    for bounds in (["4"], ["4", "42"], ["zz"], ["", "1"], ["zzz"]):
        ends = [bound.encode() for bound in bounds]
        inside = [pair for pair in pairs if ends[0] <= pair[0] and
                  (len(ends) == 1 or pair[0] < ends[1])]
        expected = b"".join(b"%s\t%s\n" % pair
                            for pair in sorted(inside, key=lambda pair: pair[0]))
        done = run([program] + bounds, data)
        check("sort_pairs %s" % bounds, done.returncode == 0 and done.stdout == expected,
              done.stderr.decode() + first_difference(done.stdout, expected))
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([program], input=data, stdout=full, stderr=subprocess.PIPE,
                                  timeout=120)
        check("sort_pairs throws through the load on a full disk",
              done.returncode == 1 and b"cannot write" in done.stderr, done.stderr)


def test_sort_pairs_py_trouble(command):
    """One line says what it is, and no traceback."""
    done = run(command, b"no tab\nb\t\nlast\t1")
    check("sort_pairs.py of a line without a tab", done.returncode == 0 and
          done.stdout == b"b\t\nlast\t1\nno tab\t\n", (done.stdout, done.stderr))
    for arguments, words in ((command[:2], b"usage: "), (command[:2] + ["/none.so"], b"/none.so")):
        done = run(arguments)
        check("sort_pairs.py %s is trouble" % arguments[2:], done.returncode == 1 and
              words in done.stderr and done.stderr.count(b"\n") == 1, done.stderr)
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(command, input=b"a\t1\n", stdout=full, stderr=subprocess.PIPE,
                                  timeout=120)
        check("sort_pairs.py on a full disk", done.returncode == 1 and
              b"No space left" in done.stderr and done.stderr.count(b"\n") == 1, done.stderr)


# ---- resume


def test_resume(program, directory):
    """Killed again and again, it comes to the end, and says where it went on."""
    generator = random.Random(SEED)
    data = b"".join(b"%016x %d\n" % (generator.getrandbits(64), i) for i in range(400000))
    source, out = write(directory + "/resume-in", data), directory + "/resume-out"
    arguments = [program, "-c", "256K", "-S", "4M", directory + "/resume-state", source, out]
    offsets, kills = [0], 0
    while kills < 1000:
        child = subprocess.Popen(arguments, stderr=subprocess.PIPE)
        try:
            told = child.communicate(timeout=generator.uniform(0.02, 0.3))[1]
        except subprocess.TimeoutExpired:
            child.kill()
            told = child.communicate()[1]
        kills += child.returncode == -signal.SIGKILL
        offsets += [int(offset) for offset in re.findall(rb"at byte (\d+)", told)]
        if child.returncode != -signal.SIGKILL:
            break
    check("resume, killed %d times, %d bytes in" % (kills, max(offsets)),
          child.returncode == 0 and offsets == sorted(offsets), (child.returncode, told))
    expected = system_sort([], data)
    check("... has sorted it all", read(out) == expected, first_difference(read(out), expected))
    more = b"0 a line that came later\n"
    with open(source, "ab") as file:
        file.write(more)
    done = run(arguments)
    check("... and goes on with what came later",
          done.returncode == 0 and b"at byte %d\n" % len(data) in done.stderr and
          read(out) == system_sort([], data + more), done.stderr)
    write(source, data[:100])
    done = run(arguments)
    check("resume with another input is trouble",
          done.returncode == 2 and b"read before" in done.stderr, done.stderr)
    for wrong in ([], ["-c", "x", "d", "i", "o"], ["d", "i"],
                  [directory + "/none/state", source, out],
                  [directory + "/state", directory + "/none", out],
                  [directory + "/state", source, directory + "/none/out"]):
        done = run([program] + wrong, cwd=directory)
        check("resume %s is trouble" % " ".join(wrong).replace(directory, "."),
              done.returncode == 2 and done.stderr != b"", (done.returncode, done.stderr))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: test_examples.py DIRECTORY-OF-THE-BINARIES [LIBETL.SO]")
    binaries = os.path.abspath(sys.argv[1])
    sort_lines, word_index = binaries + "/sort_lines", binaries + "/word_index"
    with tempfile.TemporaryDirectory(prefix="test_examples-") as directory:
        test_exhaustive(sort_lines)
        test_options(sort_lines, directory)
        test_check(sort_lines, directory)
        test_spilling(sort_lines, directory)
        test_long_lines(sort_lines, directory)
        test_trouble(sort_lines, directory)
        test_memory(sort_lines, directory)
        test_word_index(word_index, directory)
        test_resume(binaries + "/resume", directory)
        test_parallel_index(binaries + "/parallel_index", directory)
        if os.path.exists(binaries + "/sort_pairs"):
            test_sort_pairs_cpp(binaries + "/sort_pairs", directory)
        if len(sys.argv) == 3:
            script = os.path.dirname(os.path.abspath(__file__)) + "/../examples/sort_pairs.py"
            command = [sys.executable, script, sys.argv[2]]
            test_sort_pairs("sort_pairs.py", command, directory)
            test_sort_pairs_py_trouble(command)
    print("%d failed" % failures if failures else "all ok")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
