/* merge.h: k sorted providers in, one sorted stream out. */
#ifndef LIBETL_MERGE_H
#define LIBETL_MERGE_H

#include "alloc.h"
#include "provider.h"

/* One input of the heap: a provider, or a chain of providers of which each ends below where the
 * next begins. */
struct etl__player {
    struct etl__pair current; /* key == NULL: used up */
    struct etl__pair next; /* the pair behind it, read one step early; key == NULL: see merge.c */
    uint64_t next_code;    /* of `next` against `current` */
    struct etl__provider *provider;
};

struct etl__node {
    uint64_t code;
    uint32_t player;
};

/* The root of the tree: whose current pair was delivered last. */
struct etl__top {
    uint64_t code;
    uint64_t ahead; /* while the winner's code is below this it wins without a match */
    uint32_t winner;
    uint32_t streak; /* of its wins in a row */
};

/* Has the pair delivered last the key of the one before it? */
static inline bool etl__top_repeats(const struct etl__top *top) {
    return top->code <= UINT32_MAX;
}

struct etl__merge {
    struct etl__memory *memory;
    struct etl__provider **providers; /* by ascending sequence; owned */
    size_t provider_count;
    struct etl__player *players;
    struct etl__node *nodes; /* [1, player_count): losers */
    uint32_t *ranks;         /* of each player's present provider: its place in `providers` */
    uint32_t *chain_heads;   /* of each player */
    uint32_t *chain_next;    /* of each provider: the next one of its chain */
    size_t player_count;
    struct etl__top top;
    const atomic_int *cancel; /* polled; may be NULL */
    bool order_values;
    bool primed;   /* the heap stands */
    bool counting; /* all pairs are wanted: count them */
    bool repeated; /* two pairs with one key were delivered */
    int failed;    /* an error that ended this merge, until a seek */
    uint64_t delivered;
};

/* Open over providers in ascending sequence, which it owns from now on (on failure too: they are
 * closed). */
int etl__merge_open(struct etl__merge *merge, struct etl__memory *memory,
                    struct etl__provider **providers, size_t count, bool order_values,
                    const atomic_int *cancel, struct etl__error *error);
void etl__merge_close(struct etl__merge *merge);

/* Pairs that are still to come, while nothing was sought. */
uint64_t etl__merge_left(const struct etl__merge *merge);

/* Does what was delivered stay valid until the close? */
bool etl__merge_stays(const struct etl__merge *merge);

/* Bytes of a record of its providers, on average; 0 when they have none. */
uint64_t etl__merge_record_size(const struct etl__merge *merge);

/* The next pair, valid until the next call: ETL_OK, ETL_END or an error. After ETL_E_CANCELLED the
 * next call goes on where this one was; after another error only a seek brings pairs again. */
int etl__merge_next(struct etl__merge *merge, const struct etl__pair **pair,
                    struct etl__error *error);

/* Where a range of keys ends. */
struct etl__bound {
    etl_slice to;    /* keys from here on are behind it */
    uint64_t prefix; /* of `to`: decides nearly always */
    bool is_set;
    bool reached;
};

struct etl__bound etl__bound_at(etl_slice to);
bool etl__bound_is_before(const struct etl__bound *bound, const struct etl__pair *pair);

/* The next pairs, at most `most`, which is not 0: at least one, all valid until the next call. Says
 * what etl__merge_next does; with an error there are none. */
int etl__merge_take(struct etl__merge *merge, struct etl__pair *pairs, size_t most, size_t *taken,
                    struct etl__error *error);

/* The same, up to the bound, and then ETL_END: pairs behind it are lost until a seek. */
int etl__merge_take_before(struct etl__merge *merge, struct etl__bound *bound,
                           struct etl__pair *pairs, size_t most, size_t *taken,
                           struct etl__error *error);

/* Continue before the first pair with a key >= this one. */
int etl__merge_seek(struct etl__merge *merge, const uint8_t *key, size_t size,
                    struct etl__error *error);

/* Has the pair delivered last the key of the one before it? */
static inline bool etl__merge_same_as_before(const struct etl__merge *merge) {
    return etl__top_repeats(&merge->top);
}

/* Has the pair behind the one delivered last the same key? Costs a look at each code on its path.
 */
bool etl__merge_same_as_next(const struct etl__merge *merge);

#endif
