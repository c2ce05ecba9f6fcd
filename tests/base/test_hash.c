// Keyed hashes: SipHash-1-3 as CPython 3.11 computes it (hash() of bytes, PYTHONHASHSEED=0, which
// is the key 0, 0), and pairs worked by hand.
#include "base/hash.h"

#include "tests/test.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

Test(hash, with_a_key_is_siphash_1_3) {
    static const struct {
        size_t count;
        uint64_t hash;
    } VECTORS[] = {{1, 0x68a914128e01e473u},  {2, 0x10bac45c41e3669u},   {3, 0x4d4c9a4a8ef6e0adu},
                   {4, 0x7cc43f98813e4dbdu},  {5, 0x5abe2169dff36275u},  {7, 0x2f098ab0c751325au},
                   {8, 0xead411e67ebe2eeau},  {9, 0x75927f9d95124362u},  {15, 0xf30eb725bb91c9eau},
                   {16, 0x8972188433a5c5b7u}, {17, 0x4883c49a2c009c1du}, {63, 0x385d3e39e5f37359u}};
    static const HashKey ZERO = {{0}};
    uint8_t bytes[64];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    for (size_t v = 0; v < sizeof VECTORS / sizeof *VECTORS; v++)
        CHECK(keyed_hash(&ZERO, bytes, VECTORS[v].count) == VECTORS[v].hash, "%zu bytes: %llx",
              VECTORS[v].count, (unsigned long long)keyed_hash(&ZERO, bytes, VECTORS[v].count));
}

Test(hash, of_a_pair_is_the_formula) {
    // (2^40 + 3) (2^20 + 5) + 7 = 2^60 + 5 * 2^40 + 3 * 2^20 + 22: its upper half
    static const HashKey KEY = {{(uint64_t)1 << 40, (uint64_t)1 << 20, 7}};
    CHECK_INT(keyed_hash_pair(&KEY, 3, 5), (1u << 28) + 5 * 256);
}

Test(hash, depends_on_every_byte_and_on_the_key) {
    static const HashKey key = {{0x0123456789abcdefu, 0xfedcba9876543210u, 5}};
    for (size_t n = 1; n <= 24; n++) {
        uint8_t bytes[24] = {0};
        uint64_t whole = keyed_hash(&key, bytes, n);
        for (size_t i = 0; i < n; i++) {
            bytes[i] = 1;
            CHECK(keyed_hash(&key, bytes, n) != whole, "byte %zu of %zu", i, n);
            bytes[i] = 0;
        }
        HashKey other = key;
        other.words[n % 2] ^= 1;
        CHECK(keyed_hash(&other, bytes, n) != whole);
    }
}

Test(hash, another_process_has_another_key) {
    int ends[2];
    CHECK(!pipe(ends));
    pid_t child = fork(); // before the first hash_key of this process: no other test calls it
    if (child == 0) {
        HashKey key = hash_key();
        _exit(write(ends[1], &key, sizeof key) == sizeof key ? 0 : 1);
    }
    HashKey own = hash_key(), again = hash_key(), other = own;
    CHECK(!memcmp(&own, &again, sizeof own), "one key for the whole process");
    CHECK(read(ends[0], &other, sizeof other) == sizeof other);
    waitpid(child, NULL, 0);
    CHECK(memcmp(&own, &other, sizeof own) != 0);
}

// NIST's examples for FIPS 180-4: one block, two blocks, a million bytes; and no bytes.
Test(hash, sha256_is_that_of_the_standard) {
    enum { MILLION = 1000000 };
    static const struct {
        const char *text, *sum;
    } VECTORS[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char sum[SHA256_HEX], *many = malloc(MILLION);
    for (size_t i = 0; i < sizeof VECTORS / sizeof *VECTORS; i++) {
        sha256_hex(sum, VECTORS[i].text, strlen(VECTORS[i].text));
        CHECK_STRING(sum, VECTORS[i].sum);
    }
    memset(many, 'a', MILLION);
    sha256_hex(sum, many, MILLION);
    CHECK_STRING(sum, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(many);
}
