#!/usr/bin/env python3
"""Puts the library into two files, etl.c and etl.h, to be copied into any project.

    amalgamate.py OUTPUT-DIRECTORY [SOURCE-DIRECTORY]

The sources come in the reverse of CMakeLists.txt's order, so that each stands behind what it
includes; an inner header is inlined where the first file asks for it. Functions that cross files
become static: nothing but what etl.h declares is seen by a linker.

One translation unit has one name space. Macros of a source are undefined behind it; that two
files use one name for a function, a type or a constant is an error here, with both places.
Exit status 1 when there is one, or when a file is not what this script understands.
"""

import os
import re
import sys

INCLUDE = re.compile(r'^#include "([^"]+)"$')
MACRO = re.compile(r"^#\s*define\s+(\w+)")
# What a line at the left margin can define, in clang-format's layout.
FUNCTION = re.compile(r"^static [^=;(]*?\b(\w+)\(")
VARIABLE = re.compile(r"^static [^(]*?\b(\w+)(?:\[[^=]*)? =")
TYPE = re.compile(r"^(?:struct|enum|union) (\w+) \{")
TYPEDEF = re.compile(r"^typedef .*?\b(\w+)(?:\([^*].*)?;$")
PROTOTYPE = re.compile(r"^(?!static|typedef|extern|return|struct \w+;)"
                       r"(?:const )?(?:struct |enum )?\w+ [^=;(]*?\*?(etl__\w+)\(")
DATA = re.compile(r"^extern ")

HEAD = """\
/* etl.c: libetl {version}, all of it in one file, to be compiled beside etl.h:
 *
 *     cc -O2 -DNDEBUG -c etl.c        (and -pthread where the program is linked)
 *
 * Made from the sources by cmake/amalgamate.py: change those. Each begins below with its name.
 *
 * LIBETL_API may be defined, here and for whoever includes etl.h, to what stands before each public
 * function: empty, with -fvisibility=hidden, keeps them inside a shared library that embeds this. */

/* What the headers of the system show beyond ISO C: before the first of them. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#if !defined(__LP64__) && !defined(_FILE_OFFSET_BITS)
#define _FILE_OFFSET_BITS 64
#endif

#if defined(__GNUC__)
#define ETL__INTERNAL static __attribute__((unused))
#else
#define ETL__INTERNAL static
#endif

#include "etl.h"
"""


def fail(message):
    sys.exit("amalgamate.py: " + message)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def without_comments(text):
    """The text with comments and strings blanked, line for line."""
    blank = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return blank.sub(lambda found: re.sub(r"[^\n]", " ", found.group())
                     if found.group().startswith("/*") else '""', text)


def constants(text):
    """(line, name) of each enumerator of the text's enums."""
    for body in re.finditer(r"^(?:typedef )?enum\b[^{;]*\{(.*?)\}", text, re.S | re.M):
        for item in re.finditer(r"(?:^|,)\s*(\w+)", body.group(1)):
            yield text.count("\n", 0, body.start(1) + item.start(1)) + 1, item.group(1)


def definitions(text):
    """(line, name) of what the text defines for all that follows it, macros aside."""
    for number, line in enumerate(text.split("\n"), 1):
        for kind, pattern in (("", FUNCTION), ("", VARIABLE), ("struct ", TYPE), ("", TYPEDEF)):
            found = pattern.match(line)
            if found:
                yield number, kind + found.group(1)
                break
    yield from constants(text)


class Amalgamation:
    def __init__(self, source):
        self.source = source
        self.inlined = set()
        self.owners = {}
        self.errors = []
        self.parts = []

    def note(self, name, text):
        """Claim a file's names; a static declared ahead of its definition claims its own again."""
        for line, defined in definitions(text):
            owner = self.owners.setdefault(defined, (name, line))
            if owner[0] != name:
                self.errors.append("%s:%d: %s is %s:%d's already" % ((name, line, defined) + owner))

    def add(self, name):
        text = read(os.path.join(self.source, "src", name))
        is_header = name.endswith(".h")
        bare = without_comments(text)
        self.note(name, bare)
        self.parts.append("\n/* ==== src/%s */\n\n" % name)
        lines = zip(text.rstrip("\n").split("\n"), bare.split("\n"))
        for line, bare_line in lines:
            include = INCLUDE.match(line)
            if include:
                self.include(name, include.group(1))
            else:
                if is_header and PROTOTYPE.match(bare_line):
                    line = "ETL__INTERNAL " + line
                if is_header and DATA.match(bare_line):
                    line = "ETL__INTERNAL" + line[len("extern"):]
                self.parts.append(line + "\n")
        if not is_header:
            self.undefine(bare)

    def include(self, name, header):
        if header == "etl.h" or header in self.inlined:
            return
        if not os.path.exists(os.path.join(self.source, "src", header)):
            fail("%s includes %s, which is not in src/" % (name, header))
        self.inlined.add(header)
        self.add(header)
        self.parts.append("\n/* ==== src/%s goes on */\n\n" % name)

    def undefine(self, bare):
        """Behind a source its macros are gone, but for the system's names that it made up for."""
        macros = [found.group(1) for found in map(MACRO.match, bare.split("\n")) if found]
        for macro in dict.fromkeys(macros):
            if not macro.startswith(("_", "O_", "MAP_")):
                self.parts.append("#undef %s\n" % macro)


def sources(directory):
    """The library's sources, lowest first."""
    lists = read(os.path.join(directory, "CMakeLists.txt"))
    found = re.search(r"add_library\(etl_objects OBJECT\s(.*?)\)", lists, re.S)
    names = re.findall(r"src/(\w+\.c)", found.group(1)) if found else []
    if not names:
        fail("CMakeLists.txt has no add_library(etl_objects OBJECT src/...)")
    return reversed(names)


def version(header):
    parts = [re.search(r"^#define LIBETL_VERSION_%s +(\d+)$" % part, header, re.M)
             for part in ("MAJOR", "MINOR", "PATCH")]
    if None in parts:
        fail("etl.h does not define its version")
    return ".".join(part.group(1) for part in parts)


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main(arguments):
    if len(arguments) not in (2, 3):
        sys.exit(__doc__)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    source = arguments[2] if len(arguments) == 3 else here
    header = read(os.path.join(source, "include", "etl.h"))
    whole = Amalgamation(source)
    for name in sources(source):
        whole.add(name)
    if whole.errors:
        fail("names of which one file can have only one:\n" + "\n".join(whole.errors))
    os.makedirs(arguments[1], exist_ok=True)
    write(os.path.join(arguments[1], "etl.h"), header)
    write(os.path.join(arguments[1], "etl.c"),
          HEAD.replace("{version}", version(header)) + "".join(whole.parts))


if __name__ == "__main__":
    main(sys.argv)
