#!/usr/bin/env python3
"""Doxygen's view of a header: its plain comments as doc comments, its sections as groups.

    doxygen_filter.py HEADER

What the comments look like stays a matter of the header; docs/Doxyfile names this as its filter.
Lines are kept apart, not at their places.
"""

import pathlib
import re
import sys

import header as headers


def inline(text):
    """Names stay links."""
    words = []
    for word in text.split(" "):
        name = re.fullmatch(r"(\W*)((?:etl|ETL|LIBETL)_\w+(?:\(\))?)(\W*)", word)
        words.append(word if name is not None and not re.search(r"[*<>]", word)
                     else plain(word))
    return " ".join(words)


def plain(word):
    return re.sub(r"([\\@<>#&%])", r"\\\1", word).replace("*", "&lowast;").replace(
        "`", "'")


def blocks(paragraphs):
    lines = []
    for paragraph in paragraphs:
        if paragraph.kind == "code":
            code = paragraph.text.replace("*/", "* /").replace("/*", "/ *")
            lines += ["@verbatim"] + code.split("\n") + ["@endverbatim"]
        elif paragraph.kind == "list":
            lines += [f"- {inline(tag)}: {inline(text)}" for tag, text in paragraph.entries]
        else:
            lines.append(inline(paragraph.text))
        lines.append("")
    return lines


def comment(lines):
    return "\n".join(["/**"] + [f" * {line}".rstrip() for line in lines] + [" */"])


def documentation(comment_):
    lines = blocks(comment_.description)
    if comment_.returns:
        returned = blocks(comment_.returns)
        lines += ["@return " + returned[0][len("Returns "):]] + returned[1:]
    if comment_.errors:
        lines += ["@par Errors"] + blocks(comment_.errors)
    return lines


def struct(item):
    """The declaration with its members' comments behind them."""
    opening = re.match(r".*?\{", item.code, re.S).group()
    closing = item.code[item.code.rindex("}"):]
    mark = "," if item.kind == "enum" else ";"
    members = []
    for code, _, text in item.members:
        members.append(f"    {code}{mark}" + (f" /**< {inline(text)} */" if text else ""))
    return "\n".join([opening] + members + [closing])


def main():
    path = pathlib.Path(sys.argv[1])
    header = headers.Header(path)
    print(comment(["@file", ""] + blocks(header.introduction)))
    section = None
    titles = {each.title: each for each in header.sections}
    for item in header.declarations:
        if item.section != section:
            if section:
                print("/** @} */")
            section = item.section
            if section:
                name = path.stem + "_" + re.sub(r"\W+", "_", section).strip("_").lower()
                print(comment([f"@defgroup {name} {section}"] +
                              blocks(titles[section].introduction) + ["@{"]))
        leader = header.by_name[item.leader] if item.leader else item
        if leader.comment is not None:
            print(comment(documentation(leader.comment)))
        elif item.kind == "enum" and not item.code.startswith("typedef"):
            print(comment([f"{item.section or path.stem}."]))
        print(struct(item) if item.members else item.code.replace("LIBETL_API ", ""))
        if item.kind == "function" and item.code.startswith("static inline"):
            print()
    if section:
        print("/** @} */")


if __name__ == "__main__":
    main()
