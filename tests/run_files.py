"""Run files written from docs/RUN_FORMAT.md alone, right ones and such with wrong fields under right
checksums: what the tests of the tool hold it against, beside run_reader.py."""
import struct

import run_reader
from run_reader import BLOCK, ENTRY_SIZE, FOOTER_SIZE, HEADER_SIZE, NO_RECORD, crc32c


def varint(number):
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def record(key, value):
    return varint(len(key)) + varint(0 if value is None else len(value) + 1) + key + (value or b"")


def sealed(data):
    """With its checksum behind it."""
    return data + struct.pack("<I", crc32c(data))


def header(version=1, block=BLOCK, reserved=bytes(44)):
    return sealed(run_reader.HEADER_MAGIC + struct.pack("<II", version, block) + reserved)


def make(pairs, /, records=None, firsts=None, head=None, **wrong):
    """A run of these (key, value), value None for nil. What is given besides is put in place of
    what is right: encoded records, {block: first record in the table}, the header, fields of the
    footer."""
    records = records or [record(key, value) for key, value in pairs]
    starts, at = [], HEADER_SIZE
    for one in records:
        starts.append(at)
        at += len(one)
    data = (head or header()) + b"".join(records)
    first_of = {}
    for start in starts:
        first_of.setdefault(start // BLOCK, start % BLOCK)
    first_of.update(firsts or {})
    blocks = [data[i:i + BLOCK] for i in range(0, len(data), BLOCK)]
    table = b"".join(struct.pack("<II", crc32c(block), first_of.get(i, NO_RECORD))
                     for i, block in enumerate(blocks))
    field = dict(data_end=len(data), blocks=len(blocks), pairs=len(pairs),
                 key_bytes=sum(len(key) for key, _ in pairs),
                 value_bytes=sum(len(value or b"") for _, value in pairs),
                 first_record=HEADER_SIZE, last_record=starts[-1] if starts else len(data),
                 table_crc=crc32c(table), flags=0, record_most=max(map(len, records), default=0))
    assert set(wrong) <= set(field)
    field.update(wrong)
    footer = run_reader.FOOTER_MAGIC + struct.pack("<7QIIQ", *field.values()) + bytes(44)
    return data + table + sealed(footer)


def table_offset(data):
    return struct.unpack_from("<Q", data, len(data) - FOOTER_SIZE + 8)[0]


def is_whole(data):
    try:
        run_reader.read_run(data)
        return True
    except run_reader.Corrupt:
        return False


assert ENTRY_SIZE == 8
