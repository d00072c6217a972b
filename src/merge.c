/* merge.c: k sorted providers in, one sorted stream out.
 *
 * The heap is a tree of losers (Knuth, The Art of Computer Programming 5.4.1): each inner node
 * keeps the loser of its match, the winner moves up, and once the winner has been delivered only
 * the path from its leaf to the root is replayed: log2 k matches a pair, where a binary heap needs
 * twice as many.
 *
 * A match compares offset-value codes (Conner 1977; Do and Graefe 2023), made on the fly: against
 * the key delivered last, a code says how many chunks of six bytes are shared (more is smaller)
 * and which six bytes come then:
 *
 *     (0xFFFD - shared chunks) << 48 | six bytes, big-endian         a key that differs
 *     rank of the provider (0 where values decide)                   the key delivered last, again
 *     all ones                                                       used up
 *
 * Codes against one base order as the keys do; where they differ, the loser's code holds against
 * the winner too. Keys are read only where codes are equal: then from the next chunk on, and the
 * loser gets a new code. The swap in the replay is masks and XOR, since who wins is as good as
 * random and a branch would be mispredicted every second time.
 *
 * The pair behind the current one of each provider is read, and its code made, one step early: its
 * cache misses then overlap with the matches before it. A provider that has won eight times in a
 * row runs ahead, without matches, while its codes stay below the smallest on its path. Providers
 * whose ranges follow one another are chained into one player, so that runs which do not overlap
 * are replayed one behind the other and a single chain has no heap at all.
 *
 * Pairs leave one by one, or many at once where whoever takes them wants every pair as it is: the
 * loop over those has its state in registers and nothing in it fails or refills, so that nothing
 * delivered before is overwritten. It ends where either is needed, and the next call begins with a
 * step that can do both.
 *
 * Ties: the provider with the lower rank wins, so equal keys leave in the order in which they were
 * collected. Memory: 16 bytes a node and 64 a player. Nothing is allocated after etl__merge_open.
 * Not chosen: a binary heap (bench_merge shows it beside this one), and codes kept in the run
 * (more bytes to read than the comparison costs). */
#include "merge.h"
#include "chain.h"

#define CODE_END    UINT64_MAX
#define CHUNK       6
#define CHUNK_FIRST 0xFFFDu
#define CHUNKS_MOST \
    0xFFFCu /* longer shared prefixes count as this many, and matches compare keys */
#define STREAK_AHEAD 8

/* Six bytes of the key at `offset`, zeros behind its end. */
static inline uint64_t chunk_at(const uint8_t *key, size_t size, size_t offset) {
    if (ETL__LIKELY(offset + 8 <= size))
        return etl__load_be64(key + offset) >> 16;
    return etl__key_prefix(key + offset, size - offset) >> 16;
}

/* The code of a key that shares its first `shared` bytes, and no more, with a smaller one. */
static inline uint64_t code_of(const struct etl__pair *pair, size_t shared) {
    size_t chunks = shared / CHUNK;
    if (ETL__UNLIKELY(chunks >= CHUNKS_MOST))
        return (uint64_t)(CHUNK_FIRST - CHUNKS_MOST) << 48;
    return (uint64_t)(CHUNK_FIRST - chunks) << 48 |
           chunk_at(pair->key, pair->key_size, chunks * CHUNK);
}

/* How many bytes two keys share for certain whose codes are equal, at most `limit`. */
static size_t shared_by_code(uint64_t code, size_t limit) {
    if (code <= UINT32_MAX)
        return limit;
    size_t chunks = CHUNK_FIRST - (size_t)(code >> 48);
    size_t shared = chunks * CHUNK + (chunks < CHUNKS_MOST ? CHUNK : 0);
    return shared < limit ? shared : limit;
}

static uint64_t code_of_equal(const struct etl__merge *merge, uint32_t player) {
    return merge->order_values ? 0 : merge->ranks[player];
}

static int compare_pair_values(const struct etl__pair *a, const struct etl__pair *b) {
    if (a->value == NULL || b->value == NULL)
        return (a->value != NULL) - (b->value != NULL);
    return etl__key_compare(a->value, a->value_size, b->value, b->value_size);
}

/* Two players with equal codes: does a come before b? *loser_code becomes the loser's against the
 * winner. */
ETL__NOINLINE static bool wins_tie(const struct etl__merge *merge, uint32_t a, uint32_t b,
                                   uint64_t code, uint64_t *loser_code) {
    const struct etl__pair *x = &merge->players[a].current, *y = &merge->players[b].current;
    if (code == CODE_END) {
        *loser_code = CODE_END;
        return false;
    }
    size_t limit = x->key_size < y->key_size ? x->key_size : y->key_size;
    size_t shared = etl__key_common(x->key, y->key, shared_by_code(code, limit), limit);
    int order;
    if (shared < limit)
        order = x->key[shared] < y->key[shared] ? -1 : 1;
    else
        order = (x->key_size > y->key_size) - (x->key_size < y->key_size);
    bool equal = order == 0;
    if (equal && merge->order_values)
        order = compare_pair_values(x, y);
    if (order == 0)
        order = merge->ranks[a] < merge->ranks[b] ? -1 : 1;
    bool a_wins = order < 0;
    *loser_code = equal ? code_of_equal(merge, a_wins ? b : a) : code_of(a_wins ? y : x, shared);
    return a_wins;
}

static ETL__NOINLINE int out_of_order(const struct etl__player *player, struct etl__error *error) {
    return etl__fail(error, ETL_E_CORRUPT, "merging: keys out of order in a run of %llu pairs",
                     (unsigned long long)player->provider->pairs);
}

/* The code of the pair that comes behind `before` in a provider; false where it must not. */
static ETL__INLINE bool code_behind(const struct etl__merge *merge, uint32_t index,
                                    const struct etl__pair *before, const struct etl__pair *next,
                                    uint64_t *code) {
    size_t limit = before->key_size < next->key_size ? before->key_size : next->key_size;
    if (ETL__LIKELY(limit >= 8)) {
        uint64_t a = etl__load_be64(before->key) >> 16, b = etl__load_be64(next->key) >> 16;
        *code = (uint64_t)CHUNK_FIRST << 48 | b;
        if (a < b)
            return true;
    }
    size_t shared = etl__key_common(before->key, next->key, 0, limit);
    bool equal = shared == limit && before->key_size == next->key_size;
    *code = equal ? code_of_equal(merge, index) : code_of(next, shared);
    return shared < limit ? before->key[shared] < next->key[shared]
                          : before->key_size <= next->key_size;
}

/* A run's records are prefetched further than the processor does by itself; and the block behind
 * them, whose checksum then finds it in the cache. */
static ETL__INLINE void prefetch_behind(const uint8_t *at) {
    uintptr_t ahead = (uintptr_t)at + ETL__PROVIDER_AHEAD; /* of no object */
    ETL__PREFETCH((const void *)ahead);
    ETL__PREFETCH((const void *)(ahead + 64));
    ETL__PREFETCH((const void *)(ahead + ETL__PROVIDER_BLOCK_AHEAD));
}

/* Read the pair behind the current one, and make its code against it. */
static int read_next(const struct etl__merge *merge, uint32_t index, struct etl__error *error) {
    struct etl__player *player = &merge->players[index];
    int status = etl__provider_read(player->provider, &player->next, error);
    if (ETL__UNLIKELY(status != ETL_OK)) {
        player->next.key = NULL;
        player->next_code = CODE_END;
        return status == ETL_END ? ETL_OK : status;
    }
    prefetch_behind(player->provider->at);
    if (ETL__UNLIKELY(
            !code_behind(merge, index, &player->current, &player->next, &player->next_code)))
        return out_of_order(player, error);
    return ETL_OK;
}

/* Go on with the first pair of the chain of providers that begins at rank `first`; `before` is the
 * pair delivered last, or NULL at the start. */
static int enter_chain(struct etl__merge *merge, uint32_t index, uint32_t first,
                       const struct etl__pair *before, uint64_t *code, struct etl__error *error) {
    struct etl__player *player = &merge->players[index];
    for (uint32_t rank = first; rank != ETL__CHAIN_END; rank = merge->chain_next[rank]) {
        merge->ranks[index] = rank;
        player->provider = merge->providers[rank];
        int status = etl__provider_read(player->provider, &player->current, error);
        if (status == ETL_END)
            continue;
        ETL__TRY(status);
        size_t shared = 0;
        if (before != NULL) {
            const struct etl__pair *now = &player->current;
            size_t limit = before->key_size < now->key_size ? before->key_size : now->key_size;
            shared = etl__key_common(before->key, now->key, 0, limit);
            if (shared == limit ? before->key_size >= now->key_size
                                : before->key[shared] > now->key[shared])
                return out_of_order(player, error);
        }
        *code = code_of(&player->current, shared);
        return read_next(merge, index, error);
    }
    player->current.key = NULL;
    player->next.key = NULL;
    player->next_code = CODE_END;
    *code = CODE_END;
    return ETL_OK;
}

/* One match: the loser stays in the node, *code and *player become the winner's. Scalars, since a
 * struct that is stored in parts and loaded as a whole would stall. */
static ETL__INLINE void play(const struct etl__merge *merge, struct etl__node *node,
                             uint64_t *code, uint32_t *player) {
    uint64_t held_code = node->code;
    uint32_t held_player = node->player;
    if (ETL__UNLIKELY(held_code == *code)) {
        uint64_t loser_code;
        if (!wins_tie(merge, held_player, *player, held_code, &loser_code)) {
            node->code = loser_code;
            return;
        }
        node->code = loser_code;
        node->player = *player;
        *player = held_player;
        return;
    }
    uint64_t swap = (uint64_t)0 - (uint64_t)(held_code < *code);
    uint64_t codes = (held_code ^ *code) & swap;
    uint32_t players = (held_player ^ *player) & (uint32_t)swap;
    node->code = held_code ^ codes;
    node->player = held_player ^ players;
    *code ^= codes;
    *player ^= players;
}

/* The winner of the subtree at `node`; its losers are left in the nodes. */
static struct etl__node build(struct etl__merge *merge, const struct etl__node *leaves,
                              size_t node) {
    if (node >= merge->player_count)
        return leaves[node - merge->player_count];
    merge->nodes[node] = build(merge, leaves, 2 * node);
    struct etl__node winner = build(merge, leaves, 2 * node + 1);
    play(merge, &merge->nodes[node], &winner.code, &winner.player);
    return winner;
}

/* Read the first pairs and build the heap. */
static int prime(struct etl__merge *merge, struct etl__error *error) {
    size_t count = merge->player_count;
    struct etl__node *leaves = count != 0 ? merge->nodes + count : NULL;
    for (uint32_t i = 0; i < count; i++) {
        leaves[i].player = i;
        ETL__TRY(enter_chain(merge, i, merge->chain_heads[i], NULL, &leaves[i].code, error));
    }
    struct etl__node winner = {.code = CODE_END};
    if (count != 0)
        winner = build(merge, leaves, 1);
    merge->top = (struct etl__top){
        .code = winner.code, .ahead = count <= 1 ? CODE_END : 0, .winner = winner.player};
    merge->primed = true;
    return ETL_OK;
}

static uint64_t smallest_on_path(const struct etl__merge *merge, uint32_t player) {
    uint64_t smallest = CODE_END;
    for (size_t node = (merge->player_count + player) / 2; node != 0; node /= 2)
        smallest = merge->nodes[node].code < smallest ? merge->nodes[node].code : smallest;
    return smallest;
}

/* The winner was delivered, and the pair behind it has this code: replay its path to the root. */
static ETL__INLINE void replace_winner(const struct etl__merge *merge, struct etl__top *top,
                                       uint64_t code) {
    if (code < top->ahead) {
        top->code = code;
        return;
    }
    struct etl__node *nodes = merge->nodes;
    uint32_t winner = top->winner;
    for (size_t node = (merge->player_count + winner) / 2; node != 0; node /= 2)
        play(merge, &nodes[node], &code, &winner);
    top->code = code;
    top->streak = winner == top->winner ? top->streak + 1 : 0;
    top->winner = winner;
    top->ahead = top->streak >= STREAK_AHEAD ? smallest_on_path(merge, winner) : 0;
}

/* The winner was delivered: its next pair takes its place. */
static int advance(struct etl__merge *merge, struct etl__error *error) {
    uint32_t winner = merge->top.winner;
    struct etl__player *player = &merge->players[winner];
    uint64_t code = player->next_code;
    if (ETL__LIKELY(player->next.key != NULL)) {
        player->current = player->next;
        ETL__TRY(read_next(merge, winner, error));
    } else {
        struct etl__pair delivered = player->current;
        ETL__TRY(enter_chain(merge, winner, merge->chain_next[merge->ranks[winner]], &delivered,
                             &code, error));
    }
    replace_winner(merge, &merge->top, code);
    return ETL_OK;
}

/* Up to `most` pairs more, while those behind them lie in what the providers show: so nothing that
 * was delivered is overwritten. This is the loop in which a merge spends its time. */
static size_t take_shown(struct etl__merge *merge, struct etl__pair *pairs, size_t most) {
    struct etl__player *players = merge->players;
    struct etl__top top = merge->top;
    bool repeated = false;
    size_t taken = 0;
    for (; taken < most; taken++) {
        struct etl__player *player = &players[top.winner];
        struct etl__provider *provider = player->provider;
        struct etl__pair now = player->next, next;
        const uint8_t *at = provider->at;
        const struct etl__entry *entry = provider->entry;
        uint64_t code = player->next_code, next_code;
        if (now.key == NULL || !etl__provider_read_shown(provider, &next))
            break;
        if (ETL__UNLIKELY(!code_behind(merge, top.winner, &now, &next, &next_code))) {
            provider->at = at; /* to be told by who may fail */
            provider->entry = entry;
            break;
        }
        prefetch_behind(provider->at);
        player->current = now;
        player->next = next;
        player->next_code = next_code;
        replace_winner(merge, &top, code);
        repeated |= etl__top_repeats(&top);
        pairs[taken] = players[top.winner].current;
    }
    merge->top = top;
    merge->repeated |= repeated;
    merge->delivered += taken;
    return taken;
}

static uint64_t count_pairs(const struct etl__merge *merge) {
    uint64_t pairs = 0;
    for (size_t i = 0; i < merge->provider_count; i++)
        pairs += merge->providers[i]->pairs;
    return pairs;
}

uint64_t etl__merge_left(const struct etl__merge *merge) {
    uint64_t pairs = count_pairs(merge);
    return pairs > merge->delivered ? pairs - merge->delivered : 0;
}

/* Pairs in equal pairs out. */
static int check_count(const struct etl__merge *merge, struct etl__error *error) {
    uint64_t expected = count_pairs(merge);
    if (!merge->counting || merge->delivered == expected)
        return ETL_END;
    return etl__fail(error, ETL_E_CORRUPT, "merging: %llu pairs went in, %llu came out",
                     (unsigned long long)expected, (unsigned long long)merge->delivered);
}

static bool watch_says_stop(const struct etl__merge *merge) {
    return merge->cancel != NULL && atomic_load_explicit(merge->cancel, memory_order_relaxed) != 0;
}

int etl__merge_next(struct etl__merge *merge, const struct etl__pair **pair,
                    struct etl__error *error) {
    if (ETL__UNLIKELY(merge->failed != ETL_OK))
        return merge->failed;
    if (ETL__UNLIKELY(watch_says_stop(merge)))
        return etl__fail(error, ETL_E_CANCELLED, "merging: cancelled");
    int status;
    if (ETL__LIKELY(merge->primed))
        status = merge->top.code != CODE_END ? advance(merge, error) : ETL_OK;
    else
        status = prime(merge, error);
    if (ETL__LIKELY(status == ETL_OK)) {
        if (ETL__LIKELY(merge->top.code != CODE_END)) {
            *pair = &merge->players[merge->top.winner].current;
            merge->delivered++;
            merge->repeated |= etl__top_repeats(&merge->top);
            return ETL_OK;
        }
        status = check_count(merge, error);
        if (status == ETL_END)
            return status;
    }
    merge->failed = status;
    return status;
}

int etl__merge_take(struct etl__merge *merge, struct etl__pair *pairs, size_t most, size_t *taken,
                    struct etl__error *error) {
    const struct etl__pair *first;
    *taken = 0;
    ETL__TRY(etl__merge_next(merge, &first, error));
    pairs[0] = *first;
    *taken = 1 + take_shown(merge, pairs + 1, most - 1);
    return ETL_OK;
}

struct etl__bound etl__bound_at(etl_slice to) {
    return (struct etl__bound){
        .to = to, .prefix = etl__key_prefix(to.data, to.size), .is_set = true};
}

bool etl__bound_is_before(const struct etl__bound *bound, const struct etl__pair *pair) {
    return bound->is_set && etl__key_prefix(pair->key, pair->key_size) >= bound->prefix &&
           etl__key_compare(pair->key, pair->key_size, bound->to.data, bound->to.size) >= 0;
}

int etl__merge_take_before(struct etl__merge *merge, struct etl__bound *bound,
                           struct etl__pair *pairs, size_t most, size_t *taken,
                           struct etl__error *error) {
    *taken = 0;
    if (bound->reached)
        return ETL_END;
    ETL__TRY(etl__merge_take(merge, pairs, most, taken, error));
    while (*taken != 0 && etl__bound_is_before(bound, &pairs[*taken - 1])) {
        bound->reached = true;
        --*taken;
    }
    return *taken != 0 ? ETL_OK : ETL_END;
}

bool etl__merge_same_as_next(const struct etl__merge *merge) {
    uint32_t player = merge->top.winner;
    return merge->players[player].next_code <= UINT32_MAX ||
           smallest_on_path(merge, player) <= UINT32_MAX;
}

int etl__merge_seek(struct etl__merge *merge, const uint8_t *key, size_t size,
                    struct etl__error *error) {
    merge->primed = false;
    merge->counting = false;
    merge->failed = ETL_OK;
    for (size_t i = 0; i < merge->provider_count; i++) {
        struct etl__provider *provider = merge->providers[i];
        int status = provider->seek(provider, key, size, error);
        if (status != ETL_OK) {
            merge->failed = status;
            return status;
        }
    }
    return ETL_OK;
}

/* Arrays for as many players as there are providers: chaining only makes them fewer. */
static bool take_players(struct etl__merge *merge, struct etl__provider **providers) {
    size_t count = merge->provider_count;
    merge->providers = etl__alloc(merge->memory, count * sizeof *merge->providers);
    merge->players = etl__alloc_zeroed(merge->memory, count * sizeof *merge->players);
    merge->nodes = etl__alloc_zeroed(merge->memory, 2 * count * sizeof *merge->nodes);
    merge->ranks = etl__alloc_zeroed(merge->memory, count * sizeof *merge->ranks);
    merge->chain_heads = etl__alloc_zeroed(merge->memory, count * sizeof *merge->chain_heads);
    merge->chain_next = etl__alloc_zeroed(merge->memory, count * sizeof *merge->chain_next);
    if (merge->providers != NULL)
        memcpy(merge->providers, providers, count * sizeof *providers);
    return merge->providers != NULL && merge->players != NULL && merge->nodes != NULL &&
           merge->ranks != NULL && merge->chain_heads != NULL && merge->chain_next != NULL;
}

int etl__merge_open(struct etl__merge *merge, struct etl__memory *memory,
                    struct etl__provider **providers, size_t count, bool order_values,
                    const atomic_int *cancel, struct etl__error *error) {
    memset(merge, 0, sizeof *merge);
    merge->memory = memory;
    merge->provider_count = count;
    merge->order_values = order_values;
    merge->cancel = cancel;
    merge->counting = true;
    if (count == 0)
        return ETL_OK;
    int status = ETL_OK;
    if (!take_players(merge, providers))
        status = etl__fail_memory(error, count * sizeof *merge->players, "merging");
    if (status == ETL_OK)
        status = etl__chain(memory, providers, count, merge->chain_heads, merge->chain_next,
                            &merge->player_count, error);
    if (status == ETL_OK)
        return ETL_OK;
    if (merge->providers == NULL) /* nothing to close them by */
        for (size_t i = 0; i < count; i++)
            providers[i]->close(providers[i]);
    etl__merge_close(merge);
    return status;
}

bool etl__merge_stays(const struct etl__merge *merge) {
    bool stays = true;
    for (size_t i = 0; i < merge->provider_count; i++)
        stays &= merge->providers[i]->stays;
    return stays;
}

uint64_t etl__merge_record_size(const struct etl__merge *merge) {
    uint64_t pairs = count_pairs(merge), bytes = 0;
    for (size_t i = 0; i < merge->provider_count; i++)
        bytes += merge->providers[i]->bytes;
    return pairs != 0 ? bytes / pairs : 0;
}

void etl__merge_close(struct etl__merge *merge) {
    for (size_t i = 0; merge->providers != NULL && i < merge->provider_count; i++)
        merge->providers[i]->close(merge->providers[i]);
    size_t count = merge->provider_count;
    etl__free(merge->memory, merge->chain_next, count * sizeof *merge->chain_next);
    etl__free(merge->memory, merge->chain_heads, count * sizeof *merge->chain_heads);
    etl__free(merge->memory, merge->ranks, count * sizeof *merge->ranks);
    etl__free(merge->memory, merge->nodes, 2 * count * sizeof *merge->nodes);
    etl__free(merge->memory, merge->players, count * sizeof *merge->players);
    etl__free(merge->memory, (void *)merge->providers, count * sizeof *merge->providers);
    memset(merge, 0, sizeof *merge);
}
