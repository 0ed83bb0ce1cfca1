/* SPDX-License-Identifier: Apache-2.0 - keys, replays, quotas and records in the store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/internal.h"
#include "base/path.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
	char directory[64], path[96];
	struct store *store;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	text_copy(f->directory, sizeof(f->directory), "/tmp/sealmark-store-XXXXXX");
	if (!mkdtemp(f->directory))
		return -1;
	text_format(f->path, sizeof(f->path), "%s/sealmark.db", f->directory);
	*state = f;
	return store_open(f->path, &f->store, NULL);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_close(f->store);
	path_remove_tree(AT_FDCWD, f->directory, NULL);
	free(f);
	return 0;
}

/* --- keys --- */

static void hash_of(const char *text, char *out)
{
	hash_bytes(text, strlen(text), out);
}

static void keys_are_found_by_their_hash_only(void **state)
{
	struct fixture *f = *state;
	char text[API_KEY_SIZE], other[API_KEY_SIZE], hash[HASH_HEX_SIZE];
	struct store_api_key key, found;
	struct buffer bytes = {0};

	assert_int_equal(api_key_create(f->store, "n", "full", false, text, &key, NULL), 0);
	assert_int_equal(api_key_create(f->store, "n", "read", true, other, &found, NULL), 0);
	assert_string_not_equal(text, other);
	assert_true(text_starts(text, "rtcloud_"));
	assert_int_equal(strlen(text), 8 + 36 + 1 + 43);
	assert_int_equal(strspn(text + 45, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					   "0123456789-_"),
		43);
	hash_of(text, hash);
	assert_int_equal(store_key_find(f->store, hash, &found, NULL), 0);
	assert_string_equal(found.id, key.id);
	assert_string_equal(found.access, "full");
	assert_false(found.account);
	text[strlen(text) - 1] ^= 1;
	hash_of(text, hash);
	assert_int_equal(store_key_find(f->store, hash, &found, NULL), -ENOENT);
	/* the store never holds the key itself */
	store_close(f->store);
	assert_int_equal(path_read(f->path, 1 << 24, &bytes, NULL), 0);
	assert_null(memmem(buffer_bytes(&bytes), buffer_length(&bytes), other + 45, 43));
	buffer_fini(&bytes);
	assert_int_equal(store_open(f->path, &f->store, NULL), 0);
}

static void revoked_keys_are_none(void **state)
{
	struct fixture *f = *state;
	char text[API_KEY_SIZE], hash[HASH_HEX_SIZE];
	struct store_api_key key, found;

	assert_int_equal(api_key_create(f->store, "n", "full", false, text, &key, NULL), 0);
	hash_of(text, hash);
	assert_int_equal(store_key_revoke(f->store, key.id, 5, NULL, NULL), 0);
	assert_int_equal(store_key_find(f->store, hash, &found, NULL), -ENOENT);
	assert_int_equal(store_key_revoke(f->store, key.id, 6, NULL, NULL), -ENOENT);
	assert_int_equal(store_key_revoke(f->store, "none", 6, NULL, NULL), -ENOENT);
	assert_int_equal(api_key_create(f->store, "n", "all", false, text, &key, NULL), -EINVAL);
	assert_int_equal(
		api_key_create(f->store, "\xff", "full", false, text, &key, NULL), -EINVAL);
}

static void a_key_has_a_daily_limit_or_none(void **state)
{
	struct fixture *f = *state;
	char text[API_KEY_SIZE], hash[HASH_HEX_SIZE];
	struct store_api_key key, found;

	assert_int_equal(api_key_create(f->store, "n", "full", false, text, &key, NULL), 0);
	hash_of(text, hash);
	assert_int_equal(store_key_find(f->store, hash, &found, NULL), 0);
	assert_int_equal(found.daily_limit_micros, STORE_NO_LIMIT);
	assert_int_equal(store_key_limit(f->store, key.id, 0, NULL, NULL), 0);
	assert_int_equal(store_key_find(f->store, hash, &found, NULL), 0);
	assert_int_equal(found.daily_limit_micros, 0);
	assert_int_equal(store_key_limit(f->store, key.id, INT64_C(5000000000), NULL, NULL), 0);
	assert_int_equal(store_key_find(f->store, hash, &found, NULL), 0);
	assert_int_equal(found.daily_limit_micros, INT64_C(5000000000));
	assert_int_equal(store_key_limit(f->store, key.id, STORE_NO_LIMIT, NULL, NULL), 0);
	assert_int_equal(store_key_find(f->store, hash, &found, NULL), 0);
	assert_int_equal(found.daily_limit_micros, STORE_NO_LIMIT);
	assert_int_not_equal(store_key_limit(f->store, key.id, -2, NULL, NULL), 0);
	assert_int_equal(store_key_limit(f->store, "none", 1, NULL, NULL), -ENOENT);
	assert_int_equal(store_key_revoke(f->store, key.id, 5, NULL, NULL), 0);
	assert_int_equal(store_key_limit(f->store, key.id, 1, NULL, NULL), -ENOENT);
}

/* --- replays --- */

static enum store_replay_state begin(
	struct fixture *f, const char *key, const char *hash, const char *server)
{
	struct store_replay replay;
	enum store_replay_state s;

	assert_int_equal(
		store_replay_begin(f->store, "owner", key, hash, server, 1000, &replay, NULL), 0);
	s = replay.state;
	store_replay_fini(&replay);
	return s;
}

static void changes_are_done_once(void **state)
{
	struct fixture *f = *state;
	struct store_replay replay;

	assert_int_equal(begin(f, "k", "h", "s1"), STORE_REPLAY_NEW);
	assert_int_equal(begin(f, "k", "h", "s1"), STORE_REPLAY_BUSY);
	assert_int_equal(begin(f, "k", "other", "s1"), STORE_REPLAY_OTHER);
	/* that server is gone; the next one takes it over, once */
	assert_int_equal(begin(f, "k", "h", "s2"), STORE_REPLAY_LEFT);
	assert_int_equal(begin(f, "k", "h", "s2"), STORE_REPLAY_BUSY);
	assert_int_equal(store_replay_answer(f->store, "owner", "k", 201, "{\"a\":1}", NULL), 0);
	assert_int_equal(
		store_replay_begin(f->store, "owner", "k", "h", "s3", 1000, &replay, NULL), 0);
	assert_int_equal(replay.state, STORE_REPLAY_ANSWERED);
	assert_int_equal(replay.status, 201);
	assert_string_equal(replay.body, "{\"a\":1}");
	store_replay_fini(&replay);
	assert_int_equal(begin(f, "k", "other", "s3"), STORE_REPLAY_OTHER);
	/* another owner's key of the same name is another key */
	assert_int_equal(
		store_replay_begin(f->store, "else", "k", "h", "s3", 1000, &replay, NULL), 0);
	assert_int_equal(replay.state, STORE_REPLAY_NEW);
}

static void refused_changes_do_not_use_up_a_key(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(begin(f, "k", "h", "s"), STORE_REPLAY_NEW);
	assert_int_equal(store_replay_drop(f->store, "owner", "k", NULL), 0);
	assert_int_equal(begin(f, "k", "h2", "s"), STORE_REPLAY_NEW);
	assert_int_equal(store_replay_expire(f->store, 1000, NULL), 0);
	assert_int_equal(begin(f, "k", "h2", "s"), STORE_REPLAY_BUSY);
	assert_int_equal(store_replay_expire(f->store, 1001, NULL), 0);
	assert_int_equal(begin(f, "k", "h3", "s"), STORE_REPLAY_NEW);
}

/* --- sandboxes --- */

static const struct store_quota plenty = {.sandboxes = 1000, .memory_mib = 1000000};

static int add(struct fixture *f, const char *id, const char *name, const char *labels,
	uint32_t memory, const struct store_quota *quota, char *taken)
{
	struct store_sandbox s = {.name = (char *)(uintptr_t)name,
		.memory_mib = memory,
		.created_ms = 1,
		.labels = (char *)(uintptr_t)labels,
		.spec = (char *)(uintptr_t) "{}"};

	text_copy(s.id, sizeof(s.id), id);
	text_copy(s.owner, sizeof(s.owner), "owner");
	return store_sandbox_add(f->store, &s, quota, NULL, taken, NULL);
}

static void quotas_hold(void **state)
{
	const struct store_quota two = {.sandboxes = 2, .memory_mib = 1000};
	struct fixture *f = *state;
	struct store_quota now;
	char taken[ID_SIZE];

	assert_int_equal(add(f, "a", NULL, "{}", 600, &two, taken), 0);
	assert_int_equal(add(f, "b", NULL, "{}", 600, &two, taken), -ENOSPC);
	assert_int_equal(add(f, "b", NULL, "{}", 400, &two, taken), 0);
	assert_int_equal(add(f, "c", NULL, "{}", 0, &two, taken), -EDQUOT);
	assert_int_equal(store_sandbox_stopped(f->store, "a", "requested", "", 5, NULL), 0);
	assert_int_equal(add(f, "c", NULL, "{}", 601, &two, taken), -ENOSPC);
	assert_int_equal(add(f, "c", NULL, "{}", 600, &two, taken), 0);
	assert_int_equal(store_sandbox_totals(f->store, "owner", &now, NULL), 0);
	assert_int_equal(now.sandboxes, 2);
	assert_int_equal(now.memory_mib, 1000);
}

static void names_are_taken_as_long_as_they_can_run(void **state)
{
	struct fixture *f = *state;
	char taken[ID_SIZE] = "";

	assert_int_equal(add(f, "a", "n", "{}", 1, &plenty, taken), 0);
	assert_int_equal(add(f, "b", "n", "{}", 1, &plenty, taken), -EEXIST);
	assert_string_equal(taken, "a");
	assert_int_equal(store_sandbox_stopped(f->store, "a", "requested", "", 5, NULL), 0);
	assert_int_equal(add(f, "b", "n", "{}", 1, &plenty, taken), 0);
}

static void states_only_go_forward(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox s;
	char taken[ID_SIZE];

	assert_int_equal(add(f, "a", NULL, "{}", 1, &plenty, taken), 0);
	assert_int_equal(store_sandbox_stopping(f->store, "a", NULL), 0);
	/* a start that ends later does not bring it back */
	assert_int_equal(store_sandbox_ready(f->store, "a", "uml", 2, 3, NULL), -ESTALE);
	assert_int_equal(store_sandbox_stopped(f->store, "a", "requested", "d", 5, NULL), 0);
	assert_int_equal(store_sandbox_stopped(f->store, "a", "host_lost", "", 6, NULL), -ESTALE);
	assert_int_equal(store_sandbox_extend(f->store, "a", 9, NULL), -ESTALE);
	assert_int_equal(store_sandbox_get(f->store, "owner", "a", &s, NULL), 0);
	assert_string_equal(s.stop_reason, "requested");
	assert_int_equal(s.ended_ms, 5);
	store_sandbox_fini(&s);
	assert_int_equal(store_sandbox_get(f->store, "else", "a", &s, NULL), -ENOENT);
}

static int collect(void *context, const struct store_sandbox *s)
{
	text_copy((char *)context + strlen(context), 8, s->id);
	return 0;
}

static const char *listed(struct fixture *f, const struct store_sandbox_filter *filter)
{
	static char out[256];

	out[0] = 0;
	assert_int_equal(store_sandbox_each(f->store, filter, collect, out, NULL), 0);
	return out;
}

static void lists_are_filtered(void **state)
{
	const char *names[] = {"course", "x"}, *values[] = {"cs1", "it's \"quoted\""};
	struct fixture *f = *state;
	struct store_sandbox_filter filter = {.owner = "owner",
		.states = 7,
		.limit = 10,
		.label_names = names,
		.label_values = values};
	char taken[ID_SIZE];

	assert_int_equal(add(f, "a", "n", "{\"course\": \"cs1\"}", 1, &plenty, taken), 0);
	assert_int_equal(add(f, "b", NULL, "{\"course\": \"cs1\", \"x\": \"it's \\\"quoted\\\"\"}",
				 1, &plenty, taken),
		0);
	assert_int_equal(add(f, "c", NULL, "{\"course\": \"cs2\"}", 1, &plenty, taken), 0);
	assert_int_equal(store_sandbox_ready(f->store, "c", "uml", 2, 3, NULL), 0);
	assert_string_equal(listed(f, &filter), "abc");
	filter.labels = 1;
	assert_string_equal(listed(f, &filter), "ab");
	filter.labels = 2;
	assert_string_equal(listed(f, &filter), "b");
	filter.labels = 0;
	filter.states = 1u << STORE_SANDBOX_RUNNING;
	assert_string_equal(listed(f, &filter), "c");
	filter.states = 7;
	filter.limit = 2;
	assert_string_equal(listed(f, &filter), "ab");
	filter.after = 2;
	assert_string_equal(listed(f, &filter), "c");
	filter.after = 0;
	filter.name = "n";
	assert_string_equal(listed(f, &filter), "a");
	filter.name = NULL;
	filter.owner = "else";
	assert_string_equal(listed(f, &filter), "");
	filter.owner = NULL;
	assert_int_equal(store_sandbox_delete(f->store, "a", 7, NULL), 0);
	assert_string_equal(listed(f, &filter), "bc");
}

/* each has the body `text`; in the order of their names */
static void answer_at(struct fixture *f, const char *owner, const char *key, int64_t now_ms)
{
	static char text[1001];
	struct store_replay replay;

	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(
		store_replay_begin(f->store, owner, key, "h", "s", now_ms, &replay, NULL), 0);
	assert_int_equal(replay.state, STORE_REPLAY_NEW);
	assert_int_equal(store_replay_answer(f->store, owner, key, 200, text, NULL), 0);
}

static enum store_replay_state state_of(struct fixture *f, const char *owner, const char *key)
{
	struct store_replay replay;
	enum store_replay_state state;

	assert_int_equal(store_replay_begin(f->store, owner, key, "h", "s", 9, &replay, NULL), 0);
	state = replay.state;
	store_replay_fini(&replay);
	return state;
}

static void the_newest_answers_are_kept(void **state)
{
	struct fixture *f = *state;
	struct store_replay replay;

	assert_int_equal(store_replay_begin(f->store, "a", "busy", "h", "s", 0, &replay, NULL), 0);
	answer_at(f, "a", "oldest", 1);
	answer_at(f, "a", "middle", 2);
	answer_at(f, "b", "other", 1);
	answer_at(f, "a", "newest", 3);
	assert_int_equal(store_replay_trim(f->store, 4000, NULL), 0);
	assert_int_equal(state_of(f, "a", "newest"), STORE_REPLAY_ANSWERED);
	assert_int_equal(state_of(f, "a", "middle"), STORE_REPLAY_ANSWERED);
	assert_int_equal(state_of(f, "a", "oldest"), STORE_REPLAY_NEW);
	/* not what is under way, and not because of another */
	assert_int_equal(state_of(f, "a", "busy"), STORE_REPLAY_BUSY);
	assert_int_equal(state_of(f, "b", "other"), STORE_REPLAY_ANSWERED);
}

static void made_things_are_known_to_their_replay(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox s = {.created_ms = 1,
		.labels = (char *)(uintptr_t) "{}",
		.spec = (char *)(uintptr_t) "{}",
		.id = "a",
		.owner = "owner"};
	struct store_replay replay;
	char taken[ID_SIZE];

	assert_int_equal(begin(f, "k", "h", "s1"), STORE_REPLAY_NEW);
	assert_int_equal(store_sandbox_add(f->store, &s, &plenty, "k", taken, NULL), 0);
	assert_int_equal(
		store_replay_begin(f->store, "owner", "k", "h", "s2", 1, &replay, NULL), 0);
	assert_int_equal(replay.state, STORE_REPLAY_LEFT);
	assert_string_equal(replay.resource, "a");
}

/* --- the share of a key --- */

static void a_key_has_its_share(void **state)
{
	struct rate *rate = rate_new(10);
	int64_t from;

	assert_non_null(rate);
	for (int i = 0; i < 40; i++) { /* the burst */
		assert_true(rate_enter(rate, "a"));
		rate_leave(rate, "a");
	}
	assert_true(rate_enter(rate, "b")); /* another's share is untouched */
	rate_leave(rate, "b");
	from = api_now_ms();
	assert_true(rate_enter(rate, "a")); /* waits for its turn */
	assert_true(api_now_ms() - from >= 20);
	rate_leave(rate, "a");
	rate_free(rate);
}

static void many_at_once_wait_and_are_refused(void **state)
{
	struct rate *rate = rate_new(1000);

	for (int i = 0; i < 128; i++)
		assert_true(rate_enter(rate, "a"));
	assert_false(rate_enter(rate, "a"));
	rate_leave(rate, "a");
	assert_true(rate_enter(rate, "a"));
	rate_free(rate);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(keys_are_found_by_their_hash_only),
		TEST(revoked_keys_are_none),
		TEST(a_key_has_a_daily_limit_or_none),
		TEST(changes_are_done_once),
		TEST(refused_changes_do_not_use_up_a_key),
		TEST(quotas_hold),
		TEST(names_are_taken_as_long_as_they_can_run),
		TEST(states_only_go_forward),
		TEST(lists_are_filtered),
		TEST(the_newest_answers_are_kept),
		TEST(made_things_are_known_to_their_replay),
		cmocka_unit_test(a_key_has_its_share),
		cmocka_unit_test(many_at_once_wait_and_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
