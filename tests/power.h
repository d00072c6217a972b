/* power.h: a test double for a disk that loses its power: put between the library and libc by the
 * linker (--wrap), it keeps books on one directory: what of each file was synced, and which names
 * its directory had when that was synced.
 *
 * At a chosen call all ends: that call and all after it fail with EIO. Then either the process was
 * killed, and what it had not synced may be lost later still; or the power was cut, and the
 * directory becomes what the disk would have: bytes that were not synced, and names that were
 * made, moved or removed and not synced, are lost, or some of them are, each for itself: a file
 * system may write in any order. One thread; files in the directory are the library's. */
#ifndef LIBETL_TESTS_POWER_H
#define LIBETL_TESTS_POWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of what was not synced. */
enum power_loss { POWER_LOSES_ALL, POWER_LOSES_SOME };

/* What this disk does not do, as bits: syncs that it only pretends, which a test must notice; and
 * files without a name. */
enum power_lack {
    POWER_LIE_RUN = 1,
    POWER_LIE_MANIFEST = 2,
    POWER_LIE_NAMES = 4,
    POWER_LIE_PARENT = 8,
    POWER_NO_NAMELESS = 16
};

/* Keep books from now on; the directory is not there, or empty and not to be cut. */
void power_start(const char *directory, unsigned lacks);
void power_end(void);

/* All ends at this call from now on, from 1 on; 0: it does not. */
void power_cut_at(size_t call);
size_t power_calls(void); /* since power_cut_at */

/* Or: calls from this one on, so many of them, fail with this error, and the next go on as before.
 * Those that only read and close count here too. */
void power_fault_at(size_t call, int error, size_t count);
size_t power_faults(void); /* that were given, since then */

/* Afterwards, when what had files open is destroyed: only the process had ended; or the power. */
void power_after_kill(void);
void power_after_cut(enum power_loss loss, uint64_t seed);

#endif
