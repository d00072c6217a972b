#!/usr/bin/env python3
"""Runs an example that loads a database on lines of "key TAB value", in several rounds into one
database, and compares what it prints of the table with a dictionary.

    test_loader.py PROGRAM
"""

import os
import random
import subprocess
import sys
import tempfile

SEED = 20240611


def run(arguments):
    return subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)


def lines(generator, count, letters):
    for _ in range(count):
        key = "".join(generator.choices(letters, k=generator.randint(1, 12)))
        tab = "\t" if generator.random() < 0.95 else ""
        yield key + (tab + "value %d" % generator.getrandbits(30) * generator.randint(0, 4)
                     if tab else "")


def main():
    program = sys.argv[1]
    generator = random.Random(SEED)
    table = {}
    with tempfile.TemporaryDirectory(prefix="test_loader-") as directory:
        database = os.path.join(directory, "database")
        for count, letters in ((0, "a"), (60000, "abcdefghijklmnop"), (300, "abc"),
                               (300, "uvwxyz"), (1, "z")):
            path = os.path.join(directory, "lines")
            text = list(lines(generator, count, letters))
            with open(path, "w") as file:
                file.write("\n".join(text) + ("\n" if count > 1 else ""))
            for line in text:
                key, _, value = line.partition("\t")
                table[key] = value
            done = run([program, "-m", "1", database, path])
            assert done.returncode == 0, done.stderr
            done = run([program, "-p", database])
            expected = "".join("%s\t%s\n" % pair for pair in sorted(table.items()))
            assert done.returncode == 0, done.stderr
            assert done.stdout.decode() == expected, "the table differs after %d lines" % count
            print("ok: %d lines, %d keys" % (count, len(table)))
        for wrong in ([], ["-x"], [database], ["-p"], ["-p", os.path.join(directory, "none")],
                      [database, os.path.join(directory, "none")],
                      [os.path.join(directory, "none", "none", "none"), path]):
            done = run([program] + wrong)
            assert done.returncode != 0 and done.stderr != b"", wrong
        done = run([program, "-p", database])
        assert done.stdout.decode() == expected, "a failed load changed the table"
    print("ok: trouble is told")


if __name__ == "__main__":
    main()
