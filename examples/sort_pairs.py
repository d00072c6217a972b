#!/usr/bin/env python3
"""Lines "key<TAB>value" in, the same lines out by key: libetl from a language without a compiler.

    sort_pairs.py LIBETL.SO < pairs

A line without a tab is a key with an empty value, and gets one behind it.
"""
import ctypes
import os
import sys


class Slice(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    @classmethod
    def of(cls, text):  # text has to live until the call that this is for has returned
        return cls(ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p), len(text))

    def bytes(self):  # a copy: what the slice points to changes with the next call
        return ctypes.string_at(self.data, self.size)


def load_library(path):
    etl = ctypes.CDLL(path)
    etl.etl_collect.argtypes = [ctypes.c_void_p, Slice, Slice]
    etl.etl_collector_create_message.argtypes = [ctypes.c_void_p, ctypes.c_void_p,
                                                 ctypes.c_char_p, ctypes.c_size_t]
    etl.etl_collector_destroy.argtypes = [ctypes.c_void_p]
    etl.etl_iter_open.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    etl.etl_iter_next.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    etl.etl_iter_close.argtypes = [ctypes.c_void_p]
    etl.etl_status_string.restype = etl.etl_collector_message.restype = ctypes.c_char_p
    etl.etl_collector_message.argtypes = [ctypes.c_void_p]
    return etl


def sort(etl, lines, out):
    def check(status, message=None):
        if status != 0:
            text = message or etl.etl_collector_message(collector) or etl.etl_status_string(status)
            sys.exit("sort_pairs.py: " + text.decode())

    collector, pairs, key, value = ctypes.c_void_p(), ctypes.c_void_p(), Slice(), Slice()
    why = ctypes.create_string_buffer(256)
    status = etl.etl_collector_create_message(ctypes.byref(collector), None, why, len(why))
    check(status, why.value)
    for line in lines:
        name, _, rest = line.rstrip(b"\n").partition(b"\t")
        check(etl.etl_collect(collector, Slice.of(name), Slice.of(rest)))
    check(etl.etl_iter_open(ctypes.byref(pairs), collector, None))
    while (status := etl.etl_iter_next(pairs, ctypes.byref(key), ctypes.byref(value))) == 0:
        out.write(key.bytes() + b"\t" + value.bytes() + b"\n")
    check(0 if status == 1 else status)  # 1: ETL_END
    etl.etl_iter_close(pairs)
    etl.etl_collector_destroy(collector)
    out.flush()


if len(sys.argv) != 2:
    sys.exit("usage: sort_pairs.py LIBETL.SO < pairs")
try:
    sort(load_library(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
except OSError as error:  # of loading the library, reading or writing
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python would still write at its end
    sys.exit(f"sort_pairs.py: {error}")
