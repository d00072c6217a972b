/* crc32c.h: the CRC-32C checksum (Castagnoli, reflected polynomial 0x82F63B78), as in iSCSI and
 * ext4. */
#ifndef LIBETL_CRC32C_H
#define LIBETL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of data, going on from that of what came before it (0 at the start). By hardware
 * where the processor has it, asked at run time. Any thread. */
uint32_t etl__crc32c(uint32_t checksum, const void *data, size_t size);

/* The portable implementation, for the tests to compare with. */
uint32_t etl__crc32c_portable(uint32_t checksum, const void *data, size_t size);

#endif
