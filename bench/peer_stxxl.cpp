// peer_stxxl.cpp: STXXL's sorter of records of a fixed size, known at compile time: no lengths to
// read, records are moved as they are. U's addresses are padded to their greatest size. It sorts
// runs with two threads where OpenMP is there, and writes them in the background. Its blocks of
// 512 KiB and overlapped input and output need 16 MiB at least. Not stable.
#include "peers.h"

#include <cstring>
#include <exception>
#include <stxxl/sorter>

namespace {

template <std::size_t KeySize, std::size_t ValueSize> struct Record {
    unsigned char key[KeySize];
    unsigned char value[ValueSize];
};

// The sentinels that STXXL asks for are keys of zeros and of ones; no workload has the latter.
template <typename Type> struct Less {
    bool operator()(const Type &a, const Type &b) const {
        return std::memcmp(a.key, b.key, sizeof a.key) < 0;
    }
    Type min_value() const {
        return filled(0);
    }
    Type max_value() const {
        return filled(0xFF);
    }

  private:
    static Type filled(int byte) {
        Type record;
        std::memset(&record, byte, sizeof record);
        return record;
    }
};

const std::size_t block_size = 512 << 10;
const std::size_t memory_least = 16 << 20;

// Padded is true where keys have different sizes: the last byte of the room is the size, and the
// padding before it is zero, so that bytes order as keys do (U's have no zeros).
template <std::size_t KeySize, std::size_t ValueSize, bool Padded>
void sort(const pass &pass, output &output) {
    typedef Record<KeySize, ValueSize> Type;
    stxxl::sorter<Type, Less<Type>, block_size> sorter(
        Less<Type>(), pass.limit > memory_least ? pass.limit : memory_least);
    workload *workload = workload_open(pass.letter, PASS_SEED, pass.size);
    for (std::uint64_t i = 0; i < pass.pairs; i++) {
        workload_pair pair;
        Type record;
        workload_next(workload, &pair);
        if (Padded) {
            std::memset(record.key, 0, KeySize);
            if (pair.key_size >= KeySize)
                apart_fail("stxxl", "a key above the room");
            record.key[KeySize - 1] = static_cast<unsigned char>(pair.key_size);
        }
        std::memcpy(record.key, pair.key, Padded ? pair.key_size : KeySize);
        std::memcpy(record.value, pair.value, ValueSize);
        sorter.push(record);
    }
    workload_close(workload);
    for (sorter.sort(); !sorter.empty(); ++sorter) {
        const Type &record = *sorter;
        output_take(&output, record.key, Padded ? record.key[KeySize - 1] : KeySize, record.value,
                    ValueSize);
    }
    sorter.finish_clear();
}

void sort_workload(const pass &pass, output &output) {
    switch (pass.letter) {
    case 'A':
        return sort<10, 90, false>(pass, output);
    case 'B':
    case 'E':
        return sort<32, 32, false>(pass, output);
    case 'C':
        return sort<60, 32, false>(pass, output);
    case 'D':
        return sort<8, 8, false>(pass, output);
    case 'F':
        return sort<32, 1024, false>(pass, output);
    case 'U':
        return sort<88, 16, true>(pass, output);
    default:
        apart_fail("stxxl", "an unknown workload");
    }
}

// Called in a process of its own: the configuration is global.
void run(const pass *pass, peer_report *report) {
    const std::string directory = pass->directory;
    setenv("STXXLLOGFILE", "/dev/null", 1);
    setenv("STXXLERRLOGFILE", "/dev/null", 1);
    try {
        stxxl::disk_config disk(directory + "/stxxl", 2 * pass->size + (64 << 20),
                                "syscall unlink");
        disk.direct = stxxl::disk_config::DIRECT_OFF; // the page cache, as all others
        stxxl::config::get_instance()->add_disk(disk);
        sort_workload(*pass, report->output);
    } catch (const std::exception &error) {
        apart_fail("stxxl", error.what());
    }
}

} // namespace

extern "C" const struct peer peer_stxxl = {"STXXL", false, false, run};
