/* fuzz_api.c: a string of bytes as a program of calls: the first four are the options, then each
 * byte is a call and those behind it are its arguments. Memory is short, so that pairs spill, runs
 * are merged in passes, and larger inputs are dealt to buckets. What is right is decided by
 * api_machine.c. */
#include "api_machine.h"

#include <string.h>

/* What one input may cost. */
struct budget {
    size_t pairs, bytes;
    size_t work; /* pairs that are sorted or compared by the oracle */
};

struct program {
    struct fuzz_input input;
    struct machine machine;
    struct budget budget;
    uint32_t counter; /* of pairs: tells equal keys apart */
    uint8_t key[KEY_ROOM], other_key[KEY_ROOM];
};

enum { VALUE_ROOM = 1200 * 1000 };
static uint8_t value_bytes[VALUE_ROOM];
static const size_t value_sizes[] = {0,   1,   2,   4,    8,    16,    31,    60,
                                     126, 127, 128, 1000, 5000, 16384, 70000, VALUE_ROOM};
static const size_t prefix_sizes[] = {0, 0, 0, 1, 6, 8, 130, 700};

/* ---- Options */

static void take_options(struct program *program) {
    static const unsigned widths[] = {0, 2, 2, 3, 4, 8, 0, 5};
    static const char *directories[2];
    static const size_t KIB = 1024;
    struct fuzz_input *input = &program->input;
    struct machine *machine = &program->machine;
    unsigned rules = fuzz_byte(input), ways = fuzz_byte(input), limits = fuzz_byte(input);
    directories[0] = fuzz_directory();
    machine->rules.duplicates = (etl_duplicates)(rules % 6);
    machine->rules.order_values = (rules & 64) != 0;
    machine->rules.fold = (rules & 128) != 0 ? ORACLE_AFFINE : ORACLE_TRIM;
    etl_options options = LIBETL_OPTIONS_INIT;
    options.temp_dirs = directories;
    options.access = (ways & 1) != 0 ? ETL_ACCESS_READ : ETL_ACCESS_MMAP;
    options.merge_width = widths[ways >> 1 & 7];
    options.threads = (ways & 0x30) == 0x30 ? (int)(ways >> 6) : ETL_THREADS_NONE;
    options.memory_limit = (1024 + 256 * (limits & 3)) * KIB;
    if ((limits & 12) == 12)
        options.memory_limit = 12 * 1024 * KIB; /* large enough for dealing */
    if ((limits & 0x30) == 0x30)
        options.disk_limit = (limits >> 6 & 1) != 0 ? 30 * KIB : 600 * KIB;
    options.allocator.context = (limits & 128) != 0 ? machine : NULL; /* the machine's hook */
    machine->options = options;
    bool deals = options.memory_limit > 8 * 1024 * KIB;
    program->budget =
        (struct budget){deals ? 20000 : 2000, (deals ? 3000 : 1500) * KIB, deals ? 60000 : 20000};
}

/* ---- Arguments */

static etl_slice take_key(struct program *program, uint8_t *room) {
    unsigned shape = fuzz_byte(&program->input);
    size_t size = shape & 7, prefix = prefix_sizes[shape >> 3 & 7];
    const uint8_t *literal = fuzz_bytes(&program->input, &size);
    memset(room, 'k', prefix);
    for (size_t i = 0; i < size; i++)
        room[prefix + i] = (shape & 64) != 0 ? literal[i] : literal[i] & 3;
    if ((shape & 128) != 0 && prefix + size == 0)
        return etl_slice_of(NULL, 0);
    return etl_slice_of(room, prefix + size);
}

/* Numbered, unless values are to be equal too. */
static etl_slice make_value(struct program *program, unsigned shape) {
    size_t size = value_sizes[shape & 15];
    uint32_t number = program->counter++;
    if ((shape & 0x70) == 0)
        return etl_slice_of(NULL, 0);
    memset(value_bytes, (int)(shape >> 4), size);
    for (size_t i = 0; i < sizeof number && i < size && (shape & 128) == 0; i++)
        value_bytes[i] = (uint8_t)(number >> 8 * (i ^ 1));
    return etl_slice_of(value_bytes, size);
}

static bool can_afford(struct program *program, etl_slice key, etl_slice value) {
    struct budget *budget = &program->budget;
    if (budget->pairs == 0 || budget->bytes < key.size + value.size)
        return false;
    budget->pairs--;
    budget->bytes -= key.size + value.size;
    return true;
}

/* Work as large as what the collectors hold. */
static bool can_work(struct program *program) {
    size_t work = 16;
    for (unsigned i = 0; i < COLLECTORS; i++)
        work += program->machine.models[i].input.count;
    if (program->budget.work < work)
        return false;
    program->budget.work -= work;
    return true;
}

static unsigned take_mask(struct program *program) {
    return fuzz_byte(&program->input) % 3 + 1;
}

static size_t take_position(struct program *program) {
    unsigned code = fuzz_byte(&program->input);
    return (size_t)(code & 15) << (code >> 4);
}

/* ---- Calls */

static void call_collect(struct program *program, unsigned which, bool reserve) {
    etl_slice key = take_key(program, program->key);
    etl_slice value = make_value(program, fuzz_byte(&program->input));
    if (!can_afford(program, key, value))
        return;
    if (reserve)
        machine_reserve(&program->machine, which, key, value);
    else
        machine_collect(&program->machine, which, key, value);
}

/* Many pairs: ascending, descending, scattered, or with few distinct keys. */
static void call_bulk(struct program *program, unsigned which) {
    unsigned shape = fuzz_byte(&program->input), value_shape = fuzz_byte(&program->input);
    size_t count = (size_t)1 << (shape & 15), prefix = prefix_sizes[shape >> 4 & 7];
    unsigned order = fuzz_byte(&program->input), every = fuzz_byte(&program->input);
    memset(program->key, 'b', prefix);
    for (size_t i = 0; i < count; i++) {
        uint32_t number = (uint32_t)i;
        if ((order & 3) == 1)
            number = (uint32_t)(count - i);
        else if ((order & 3) > 1)
            number = (number * 2654435761u) >> ((order & 3) == 2 ? order >> 3 : 24);
        for (size_t byte = 0; byte < 4; byte++)
            program->key[prefix + byte] = (uint8_t)(number >> (24 - 8 * byte));
        etl_slice key = etl_slice_of(program->key, prefix + 4);
        etl_slice value = make_value(program, value_shape);
        if (!can_afford(program, key, value))
            return;
        machine_collect(&program->machine, which, key, value);
        if ((order & 4) != 0 && i % (every + 20) == every)
            machine_flush(&program->machine, which);
    }
}

static void call_open(struct program *program, unsigned slot) {
    unsigned mask = take_mask(program), bounds = fuzz_byte(&program->input);
    etl_range range = {{NULL, 0}, {NULL, 0}};
    if ((bounds & 1) != 0)
        range.from = take_key(program, program->key);
    if ((bounds & 2) != 0)
        range.to = take_key(program, program->other_key);
    if (can_work(program))
        machine_open(&program->machine, slot, mask, (bounds & 7) == 0 ? NULL : &range);
}

static void call_seek(struct program *program, unsigned slot) {
    const struct reader *reader = &program->machine.readers[slot];
    unsigned how = fuzz_byte(&program->input);
    if ((how & 1) != 0 && reader->has_pair)
        machine_seek(&program->machine, slot, reader->key);
    else
        machine_seek(&program->machine, slot, take_key(program, program->key));
}

static void call_load(struct program *program, unsigned how) {
    unsigned mask = take_mask(program);
    size_t at = how != 0 ? take_position(program) : SIZE_MAX;
    if (can_work(program))
        machine_load(&program->machine, mask, how == 1 ? at : SIZE_MAX, how == 2 ? at : SIZE_MAX);
}

/* From an iterator straight into a collector. */
static void call_copy(struct program *program, unsigned slot, unsigned which) {
    const struct reader *reader = &program->machine.readers[slot];
    if (reader->has_pair && can_afford(program, reader->key, reader->value))
        machine_collect(&program->machine, which, reader->key, reader->value);
}

static void call_prefix_end(struct program *program) {
    etl_slice prefix = take_key(program, program->key);
    const uint8_t *bytes = prefix.data;
    size_t size = prefix.size, made = 99;
    while (size != 0 && bytes[size - 1] == 255)
        size--;
    int status = etl_prefix_end(prefix, program->other_key, &made);
    FUZZ_CHECK(status == (size != 0 ? ETL_OK : ETL_END) && made == size);
    if (size != 0)
        FUZZ_CHECK(memcmp(bytes, program->other_key, size - 1) == 0 &&
                   program->other_key[size - 1] == bytes[size - 1] + 1);
}

static void call_trouble(struct program *program) {
    struct machine *machine = &program->machine;
    unsigned what = fuzz_byte(&program->input);
    if ((what & 1) != 0)
        machine->until_reduce_stops = (long)(what >> 2);
    else if (machine->options.allocator.context != NULL)
        atomic_store(&machine->hook.until_refusal, (long)(what >> 1));
}

/* ---- The program */

enum call {
    COLLECT,
    COLLECT_TOO, /* twice, to be as likely as the others together */
    RESERVE,
    BULK,
    FLUSH,
    LOAD,
    LOAD_STOPPED,
    LOAD_CANCELLED,
    OPEN,
    NEXT,
    SEEK,
    CLOSE,
    COPY,
    SPLIT,
    TRANSFORM,
    RESET,
    CANCEL,
    RESUME,
    REPLACE,
    INVALID,
    STATS,
    PREFIX_END,
    TROUBLE,
    CALLS
};

static void make_call(struct program *program) {
    struct machine *machine = &program->machine;
    unsigned byte = fuzz_byte(&program->input);
    unsigned which = byte / 128 % COLLECTORS, slot = byte / 32 % READERS;
    switch ((enum call)(byte % 32 % CALLS)) {
    case COLLECT:
    case COLLECT_TOO:
        call_collect(program, which, false);
        break;
    case RESERVE:
        call_collect(program, which, true);
        break;
    case BULK:
        call_bulk(program, which);
        break;
    case FLUSH:
        machine_flush(machine, which);
        break;
    case LOAD:
        call_load(program, 0);
        break;
    case LOAD_STOPPED:
        call_load(program, 1);
        break;
    case LOAD_CANCELLED:
        call_load(program, 2);
        break;
    case OPEN:
        call_open(program, slot);
        break;
    case NEXT:
        machine_next(machine, slot, take_position(program));
        break;
    case SEEK:
        call_seek(program, slot);
        break;
    case CLOSE:
        machine_close(machine, slot);
        break;
    case COPY:
        call_copy(program, slot, which);
        break;
    case SPLIT:
        if (can_work(program))
            machine_split(machine, take_mask(program), byte / 32 + 1);
        break;
    case TRANSFORM:
        if (can_work(program))
            machine_transform(machine, which);
        break;
    case RESET:
        machine_reset(machine, which);
        break;
    case CANCEL:
        machine_cancel(machine, which);
        break;
    case RESUME:
        machine_resume(machine, which);
        break;
    case REPLACE:
        machine_replace(machine, which);
        break;
    case INVALID:
        machine_invalid(machine, which);
        break;
    case STATS:
        machine_stats(machine, which);
        break;
    case PREFIX_END:
        call_prefix_end(program);
        break;
    case TROUBLE:
    case CALLS:
        call_trouble(program);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct program program;
    memset(&program, 0, sizeof program);
    program.input = (struct fuzz_input){data, data + size};
    take_options(&program);
    machine_start(&program.machine);
    while (fuzz_left(&program.input) != 0)
        make_call(&program);
    machine_end(&program.machine);
    return 0;
}
