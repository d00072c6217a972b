#!/usr/bin/env python3
"""Makes the manual pages of section 3 out of include/etl.h and the frames beside this file.

    make_man.py HEADER FRAMES OUTPUT

A frame, NAME.3.in, is mdoc: what a header cannot say (one line what the page is about, an
introduction, examples, where to read on) under the usual section heads. What is generated comes
behind a frame's text of the same section. In its first lines a frame says what is on its page:

    .\\" Functions: etl_collect etl_key_put_*        these, or whatever matches
    .\\" Section: Iterating                          the rest of that section of the header

Each declaration of the header is on one page; one that is on none is an error, which says what to
do. `.\\" Links:` in a generated page names what is to be a link to it.
"""

import argparse
import datetime
import fnmatch
import pathlib
import re
import sys

import header as headers

SECTIONS = ["NAME", "LIBRARY", "SYNOPSIS", "DESCRIPTION", "RETURN VALUES", "EXAMPLES", "ERRORS",
            "SEE ALSO", "STANDARDS", "HISTORY", "CAVEATS"]
LEADING, TRAILING = "([", ").,;:!?]"


# ---- Text: words of the header in mdoc, names marked as what they are


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-" if re.fullmatch(r"-\d+", text) else "-")
    return "\\&" + text if text[:1] in ".'" else text


class Marker:
    """Knows which words are names: of this page, of others, or of the parameters at hand."""

    def __init__(self, header, pages, page):
        self.header, self.pages, self.page = header, pages, page
        self.parameters = ()

    def macro(self, word, before):
        """The macro line for a word, or None where it is just a word."""
        bare = word[:-2] if word.endswith("()") else word
        found = self.header.by_name.get(bare)
        if found is not None and found.kind in ("function", "callback"):
            page = self.pages[bare]
            return f"Fn {bare}" if page == self.page else f"Xr {bare} 3"
        if found is not None and found.kind != "macro" and not bare.startswith("ETL_"):
            return f"Vt {bare}"
        if re.fullmatch(r"(ETL|LIBETL)_\w+|NULL|SIZE_MAX|SIGBUS", bare):
            return f"Dv {bare}"
        if re.fullmatch(r"etl_\w+\*", bare):
            return f"Fn {bare}"
        if re.fullmatch(r"\$\w+", bare):
            return f"Ev {bare[1:]}"
        if re.fullmatch(r"/\w+(/\w+)*", bare):
            return f"Pa {bare}"
        if re.fullmatch(r"`.*`", bare):
            return ("Fa " if bare[1:-1] in self.parameters else "Va ") + bare[1:-1]
        plain = re.sub(r"^\*|'s$", "", bare)
        name = re.split(r"\.|->", plain)[0]
        if name in self.parameters and (plain != bare or "." in plain or "_" in plain or
                                        before not in ("a", "an", "one", "same", "this", "equal",
                                                       "an", "is", "are", "the", "of", "or")):
            mark = "Fa " + re.sub(r"'s$", "", bare)
            return mark + (" Ns 's" if bare.endswith("'s") else "")
        if re.fullmatch(r"etl_\w+(\.\w+)+", bare) or re.fullmatch(r"[a-z]+(_[a-z]+)+", bare):
            return f"Va {bare}"
        return None

    def lines(self, text):
        """mdoc lines: a sentence begins a line, and so does a name."""
        result, current, before = [], [], ""

        def flush():
            if current:
                result.append(escape(" ".join(current)))
                current.clear()

        for word in text.split(" "):
            found = re.fullmatch(r"([(\[]*)(.*?)(['\"]?[).,;:!?\]]*)", word)
            opening, core, closing = found.groups()
            if core.endswith("(") and closing.startswith(")"):  # name()
                core, closing = core[:-1], closing[1:]
            mark = self.macro(core, before) if core else None
            if mark is not None and closing[:1] not in ("'", '"'):
                flush()
                name, rest = mark.split(" ", 1)
                result.append(" ".join(
                    ["." + name] + list(opening) + [rest] + list(closing)))
            else:
                current.append(word)
            before = core.lower() if not closing else ""
            if len(" ".join(current)) > 78:
                last = current.pop()
                flush()
                current.append(last)
            if re.search(r"[.!?]\)?$", word) and word not in ("...", "e.g."):
                flush()
        flush()
        return result

    def blocks(self, blocks, first=False, compact=True):
        """Paragraphs as mdoc; first: something that separates stands before it."""
        lines = []
        for block in blocks:
            if block.kind == "text":
                lines += ([] if first else [".Pp"]) + self.lines(block.text)
            elif block.kind == "code":
                lines += [".Bd -literal -offset 2n"]
                lines += [escape(line) for line in block.text.split("\n")] + [".Ed"]
            else:
                lines += self.entries(block.entries, compact)
            first = False
        return lines

    def entries(self, entries, compact=True):
        """A list with tags; names of members and parameters are marked."""
        width = max(len(re.sub(r", ", "", tag.split(",")[0])) for tag, _ in entries)
        errors = any(tag.startswith("ETL_E_") for tag, _ in entries)
        width = "Ds" if width > 22 else "x" * (width + (2 if errors else 0))
        lines = [".Pp"] if compact else []
        lines += [f".Bl -tag -width {width}" + (" -compact" if compact else "")]
        for tag, text in entries:
            lines.append(".It " + self.tag(tag))
            lines += self.lines(text) if text else []
        return lines + [".El"]

    def tag(self, tag):
        if re.fullmatch(r"ETL_E_\w+(, ETL_E_\w+)*", tag):
            return "Er " + tag.replace(", ", " , Er ") if "," in tag else f"Bq Er {tag}"
        if tag.startswith("ETL_"):
            return f"Dv {tag}"
        if tag in self.parameters:
            return f"Fa {tag}"
        return f"Em {escape(tag)}" if not tag[0].isupper() else f"Sy {escape(tag)}"


# ---- Sections of a page


def quoted(text):
    return f'"{text}"'


def synopsis(items):
    lines = [".In etl.h"]
    last = None
    for item in sorted(items, key=lambda item: item.kind in ("function", "callback")):
        if item.kind == "opaque" and [each.name for each in items].count(item.name) > 1:
            continue
        if item.kind in ("function", "callback"):
            if last == "type":
                lines.append(".Pp")
            result = ("typedef " if item.kind == "callback" else "") + item.result
            lines += [f".Ft {quoted(result) if ' ' in result else result}", f".Fo {item.name}"]
            lines += [f".Fa {quoted(each)}" for each in item.parameters] + [".Fc"]
            last = "function"
            continue
        if last == "function":
            lines.append(".Pp")
        last = "type"
        if item.kind == "macro":
            code = item.code.split("\n")
            text = code[0] if len(code) == 1 else " ".join(code[0].split()[:2])
            lines.append(f".Fd {escape(text)}")
        elif item.name.startswith("ETL_"):
            pass
        else:
            word = "enum" if item.kind == "enum" else "struct"
            lines.append(f".Vt typedef {word} {item.name} {item.name} ;")
    return lines


def name_of_parameter(parameter):
    found = re.search(r"(\w+)(?:\[\])?$", parameter)
    return found.group(1)


def heads(items):
    """The list heads of declarations that share a comment."""
    lines = []
    for item in items:
        if item.kind in ("function", "callback"):
            names = " ".join(quoted(name_of_parameter(each)) for each in item.parameters)
            lines.append(f".It Fn {item.name} {names}")
        elif item.kind == "macro":
            arguments = re.match(r"#define \w+\((.*?)\)", item.code)
            lines.append(f".It Fn {item.name} {quoted(arguments.group(1))}" if arguments
                         else f".It Dv {item.name}")
        else:
            lines.append(f".It Vt {item.name}" if not item.name.startswith("ETL_") else
                         ".It Em Statuses")
    return lines


def enumerators(item, marker):
    return marker.entries([(name, text) for _, name, text in item.members])


def members(item, marker):
    """What a struct has, with the type of each and its comment."""
    lines = [".Pp", ".Bl -tag -width Ds -compact"]
    for code, name, text in item.members:
        if "(*" in code:
            lines.append(f".It Va {quoted(code)}")
        else:
            kind = code[:-len(name)].rstrip()
            stars = re.search(r"\**$", kind).group()
            kind = kind[:len(kind) - len(stars)].rstrip()
            lines.append(f".It Vt {quoted(kind)} " + (f"Va {stars}{name}" if stars else
                                                      f"Va {name}"))
        if text:
            word = text.split(" ")[0]
            text = (word.capitalize() if re.fullmatch("[a-z]+[,;:]?", word) else word) + \
                text[len(word):] + ("" if text.endswith(".") else ".")
            lines += marker.lines(text)
    return lines + [".El"]


def groups_of(items):
    """Lists of declarations that share a comment, without what has nothing to say."""
    groups = []
    for item in items:
        if item.leader is not None and groups:
            groups[-1].append(item)
        elif item.comment is not None or item.members:
            groups.append([item])
    return [group for group in groups if group[0].kind != "opaque" or len(items) == 1]


def parameters_of(group):
    names = set()
    for item in group:
        names |= {name_of_parameter(each) for each in item.parameters if each != "void"}
        names |= set(re.findall(r"^#define \w+\((\w+)\)", item.code))
        names |= {name for _, name, _ in item.members if item.kind == "struct"}
    return names


def description(groups, marker):
    single = len(groups) == 1 and groups[0][0].kind == "function" and len(groups[0]) == 1
    lines = [] if single else [".Bl -tag -width Ds -compact"]
    for group in groups:
        first = group[0]
        marker.parameters = parameters_of(group)
        if not single:
            lines += ([".Pp"] if len(lines) > 1 else []) + heads(group)
        body = marker.blocks(first.comment.description, first=True) if first.comment else []
        lines += body
        if first.kind == "enum":
            lines += enumerators(first, marker)
        elif first.members and any(text for _, _, text in first.members):
            lines += members(first, marker)
    return lines + ([] if single else [".El"])


def names_line(group, verb, plural):
    """"The a() function returns", on mdoc lines."""
    names = [item.name for item in group]
    if len(names) == 1:
        return [f".Fn {names[0]}", verb]
    if len(names) > 3:
        stems = list(dict.fromkeys(re.sub(r"[a-z0-9]+$", "", name) for name in names))
        if len(stems) == 1 and len(names) > 5:
            return ["The", f".Fn {stems[0]}*", f"functions {plural}"]
    lines = []
    for at, name in enumerate(names):
        lines.append(f".Fn {name}" + (" ," if at + 2 < len(names) else ""))
        if at + 2 == len(names):
            lines.append("and")
    return lines + [plural]


def texts(blocks):
    return [(block.kind, block.text, block.entries) for block in blocks]


def merged(groups, part):
    """The functions of each (group, paragraphs); those that say the same one after the other are
    one."""
    result = []
    for group in groups:
        first = group[0]
        blocks = getattr(first.comment, part) if first.comment is not None else []
        if first.kind != "function" or not blocks:
            continue
        if result and texts(result[-1][1]) == texts(blocks):
            result[-1] = (result[-1][0] + group, blocks)
        else:
            result.append((list(group), blocks))
    return result


def returns(groups, marker):
    lines = []
    for group, blocks in merged(groups, "returns"):
        marker.parameters = parameters_of(group)
        lines += [".Pp"] if lines else []
        lines += names_line(group, "returns", "return")
        text = " ".join(block.text for block in blocks)[len("Returns "):]
        if "an error" not in text:
            text = re.sub(r",? or$", ", or an error.", text)
            text = re.sub(r":$", ", one of the errors below.", text)
        lines += marker.lines(re.sub(r":$", ".", text))
    silent = [item for group in groups for item in group if group[0].kind == "function" and
              group[0].result == "int" and group[0].comment and not group[0].comment.returns]
    if silent:
        lines += [".Pp"] if lines else []
        lines += names_line(silent, "returns", "return") + [".Dv ETL_OK", "or an error."]
    return lines


STATUS = {}


def errors(groups, marker):
    lines = []
    for group, blocks in merged(groups, "errors"):
        marker.parameters = parameters_of(group)
        lines += [".Pp"] if lines else []
        if blocks[0].kind == "text":
            text = blocks[0].text
            if text.startswith("as "):
                lines += names_line(group, "fails", "fail") + marker.lines(text)
            elif text.rstrip(".") in STATUS:
                name = text.rstrip(".")
                lines += names_line(group, "fails with", "fail with") + [
                    f".Er {name}", f"where {STATUS[name].split(';')[0]}."]
            else:
                lines += names_line(group, "fails with", "fail with") + marker.lines(text)
            blocks = blocks[1:]
        else:
            lines += names_line(group, "fails with:", "fail with:")
        for block in blocks:
            lines += marker.blocks([block] if block.kind == "list" else [headers.Paragraph(
                "text", "Also " + re.sub(r"\.?$", ".", block.text))])
    return lines


# ---- Pages


class Frame:
    def __init__(self, path):
        self.path, self.name = path, path.name[:-len(".3.in")]
        self.patterns, self.sections, self.text, self.about = [], [], {}, ""
        current = None
        for line in path.read_text().split("\n"):
            control = re.match(r'\.\\" (Functions|Section): (.*)', line)
            if control is not None and control.group(1) == "Functions":
                self.patterns += control.group(2).split()
            elif control is not None:
                self.sections.append(control.group(2))
            elif line.startswith(".Nd "):
                self.about = line[4:]
            elif line.startswith(".Sh "):
                current = line[4:]
                if current not in SECTIONS:
                    raise SystemExit(f"{path}: no such section: {current}")
                self.text[current] = []
            elif current is not None:
                self.text[current].append(line)
        for text in self.text.values():
            while text and text[-1] == "":
                text.pop()


def assign(header, frames):
    """Which page each declaration is on, by name."""
    pages, problems = {}, []
    for item in header.declarations:
        exact = [frame for frame in frames if item.name in frame.patterns]
        matching = [frame for frame in frames
                    if any(fnmatch.fnmatchcase(item.name, each) for each in frame.patterns)]
        rest = [frame for frame in frames if item.section in frame.sections]
        found = exact or matching or rest
        if len(found) != 1:
            where = " and ".join(frame.path.name for frame in found) or "no page"
            problems.append(f"{header.path}:{item.line}: {item.name} is on {where}; "
                            f"its section is '{item.section}'")
            continue
        pages[item.name] = found[0].name
    for frame in frames:
        for pattern in frame.patterns:
            if not fnmatch.filter([item.name for item in header.declarations], pattern):
                problems.append(f"{frame.path}: nothing in {header.path} matches {pattern}")
    if problems:
        problems.append(
            f"Each name of the header is on one page. In {frames[0].path.parent}, name it in the "
            "line '.\\\" Functions:' of one frame:\n"
            f"    {' '.join(frame.path.name for frame in frames)}\n"
            "or write a new frame, NAME.3.in, like these; one with '.\\\" Section: TITLE' takes "
            "all that is left of a section.")
        raise SystemExit("\n".join(problems))
    return pages


def index(header, pages, frames):
    """For the overview: each page with its functions, in the header's order."""
    lines = [".Bl -tag -width Ds"]
    for name in dict.fromkeys(pages[item.name] for item in header.declarations):
        frame = next(each for each in frames if each.name == name)
        functions = [item.name for item in header.declarations
                     if pages[item.name] == name and item.kind == "function"]
        lines += [f".It Xr {name} 3 : {frame.about}"]
        if len(functions) > 8:
            functions = sorted({re.sub(r"_(put|get)_\w+$", r"_\1_*", each) for each in functions})
        lines += [f".Fn {each}" + (" ," if at + 1 < len(functions) else "")
                  for at, each in enumerate(functions)]
    return lines + [".El"]


def make(frame, header, pages, frames, date, version):
    items = sorted((item for item in header.declarations if pages[item.name] == frame.name),
                   key=lambda item: item.name != frame.name)
    marker = Marker(header, pages, frame.name)
    names = [item.name for item in items if item.kind in ("function", "callback")]
    types = [item.name for item in items if item.kind in ("struct", "enum", "opaque") and
             not item.name.startswith("ETL_") and item.name not in names]
    links = [name for name in dict.fromkeys(names + types) if name != frame.name]
    groups = groups_of(items)
    overview = not items
    listed = [frame.name] + [name for name in names or types if name != frame.name]
    generated = {
        "LIBRARY": ["libetl (\\-letl)"],
        "SYNOPSIS": synopsis(items) if not overview else [],
        "DESCRIPTION": description(groups, marker) if not overview else
        marker.blocks(header.introduction[1:], first=True, compact=False),
        "RETURN VALUES": returns(groups, marker),
        "ERRORS": errors(groups, marker),
    }
    sections = {section.title: section.introduction for section in header.sections}
    introduction = [block for title in frame.sections for block in sections.get(title, [])
                    if len(frame.sections) == 1]
    lines = [f'.\\" Made of {header.path.name} and {frame.path.name} by make_man.py.',
             f'.\\" Links: {" ".join(links)}'.rstrip(), f".Dd {date}",
             ".ds doc-volume-operating-system libetl",  # groff's head line would say BSD
             f".Dt {frame.name.upper()} 3", f".Os libetl {version}"]
    for section in SECTIONS:
        hand = frame.text.get(section, [])
        made = generated.get(section, [])
        if section == "NAME":
            made = [f".Nm {name}" + (" ," if at + 1 < len(listed) else "")
                    for at, name in enumerate(listed)] + [f".Nd {frame.about}"]
        if section == "DESCRIPTION" and introduction:
            hand = hand + marker.blocks(introduction, first=not hand)
        if section == "DESCRIPTION" and hand and made and not overview:
            made = [".Pp"] + made
        if overview and section == "DESCRIPTION":
            at = hand.index("@INDEX@")
            hand, made = [], made + hand[:at] + index(header, pages, frames) + hand[at + 1:]
        if section == "LIBRARY":
            hand, made = made, hand
        if hand or made:
            lines += [f".Sh {section}"] + hand + made
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("header", type=pathlib.Path)
    parser.add_argument("frames", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    arguments = parser.parse_args()
    header = headers.Header(arguments.header)
    source = arguments.header.read_text()
    version = ".".join(re.search(rf"LIBETL_VERSION_{part} (\d+)", source).group(1)
                       for part in ("MAJOR", "MINOR", "PATCH"))
    STATUS.update({name: text for _, name, text in header.by_name["ETL_OK"].members})
    frames = [Frame(path) for path in sorted(arguments.frames.glob("*.3.in"))]
    pages = assign(header, frames)
    date = (arguments.frames / "date").read_text().strip()
    datetime.datetime.strptime(date, "%B %d, %Y")
    arguments.output.mkdir(parents=True, exist_ok=True)
    for old in arguments.output.glob("*.3"):
        old.unlink()
    for frame in frames:
        text = make(frame, header, pages, frames, date, version)
        (arguments.output / f"{frame.name}.3").write_text(text)
        for link in re.search(r'^\.\\" Links: ?(.*)$', text, re.M).group(1).split():
            (arguments.output / f"{link}.3").write_text(f".so man3/{frame.name}.3\n")


if __name__ == "__main__":
    main()
