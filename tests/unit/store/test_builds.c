/* SPDX-License-Identifier: Apache-2.0 - builds of images: one of a name, and room as sandboxes have
 * it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/path.h"
#include "base/text.h"
#include "store/builds.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 12
#define ROUNDS  20

struct fixture {
	char directory[64];
	struct store *store;
	char taken[ID_SIZE];
};

static struct store_quota quota;

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char path[96];

	quota = (struct store_quota){.sandboxes = 2, .memory_mib = 8192, .vcpu = 4};
	text_copy(f->directory, sizeof(f->directory), "/tmp/sealmark-builds-XXXXXX");
	if (!mkdtemp(f->directory))
		return -1;
	text_format(path, sizeof(path), "%s/sealmark.db", f->directory);
	*state = f;
	return store_open(path, &f->store, NULL);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_close(f->store);
	path_remove_tree(AT_FDCWD, f->directory, NULL);
	free(f);
	return 0;
}

static int sandbox(struct fixture *f, const char *id, uint32_t memory_mib)
{
	char labels[] = "{}", spec[] = "{}";
	struct store_sandbox record = {.vcpu = 1,
		.memory_mib = memory_mib,
		.created_ms = 1,
		.expires_ms = 2,
		.labels = labels,
		.spec = spec};

	text_copy(record.id, sizeof(record.id), id);
	text_copy(record.owner, sizeof(record.owner), "k");
	return store_sandbox_add(f->store, &record, &quota, NULL, f->taken, NULL);
}

static void stop(struct fixture *f, const char *id)
{
	assert_int_equal(store_sandbox_stopped(f->store, id, "requested", "", 3, NULL), 0);
}

static int add(struct store *store, const char *name, const char *owner)
{
	const struct store_build build = {.name = name,
		.owner = owner,
		.server = "this",
		.vcpu = 1,
		.memory_mib = 4096,
		.created_ms = 1};

	return store_build_add(store, &build, NULL);
}

static int room(struct fixture *f, const char *name, bool claim)
{
	return store_build_room(f->store, name, &quota, claim, f->taken, NULL);
}

static void test_room_is_promised_once(void **state)
{
	struct fixture *f = *state;
	struct store_quota used;

	assert_int_equal(add(f->store, "a", "k"), 0);
	/* one that waits takes nothing */
	assert_int_equal(sandbox(f, "1", 4096), 0);
	assert_int_equal(room(f, "a", false), 0);
	assert_int_equal(room(f, "a", false), 0); /* which is not counted twice */
	assert_int_equal(store_sandbox_totals(f->store, "k", &used, NULL), 0);
	assert_int_equal(used.memory_mib, 8192);
	assert_int_equal(used.vcpu, 2);
	assert_int_equal(used.key_memory_mib, 8192);
	assert_int_equal(used.key_vcpu, 2);
	assert_int_equal(used.sandboxes, 1);
	assert_int_equal(sandbox(f, "2", 128), -ENOSPC);
	assert_string_equal(f->taken, "sandbox.memory_mib");
	assert_int_equal(store_build_remove(f->store, "a", NULL), 0);
	assert_int_equal(sandbox(f, "2", 4096), 0);
	/* and the other way round; how many sandboxes there may be does not matter for a build */
	assert_int_equal(add(f->store, "a", "k"), 0);
	assert_int_equal(room(f, "a", false), -ENOSPC);
	assert_string_equal(f->taken, "sandbox.memory_mib");
	stop(f, "1");
	assert_int_equal(room(f, "a", false), 0);
}

static void test_cpus_are_promised_once(void **state)
{
	struct fixture *f = *state;

	quota.vcpu = 2;
	assert_int_equal(add(f->store, "a", "k"), 0);
	assert_int_equal(room(f, "a", false), 0);
	assert_int_equal(sandbox(f, "1", 128), 0);
	assert_int_equal(sandbox(f, "2", 128), -ENOSPC);
	assert_string_equal(f->taken, "sandbox.vcpu");
}

static void test_what_becomes_free_is_kept_for_a_claim(void **state)
{
	struct fixture *f = *state;

	quota.sandboxes = 100;
	assert_int_equal(sandbox(f, "1", 3072), 0);
	assert_int_equal(sandbox(f, "2", 3072), 0);
	assert_int_equal(add(f->store, "a", "k"), 0);
	assert_int_equal(room(f, "a", true), -ENOSPC);
	/* without it, small ones would take each piece before there is enough */
	assert_int_equal(sandbox(f, "3", 512), -ENOSPC);
	stop(f, "1");
	assert_int_equal(sandbox(f, "3", 1024), 0); /* the rest is enough for it */
	assert_int_equal(sandbox(f, "4", 512), -ENOSPC);
	assert_int_equal(room(f, "a", true), 0);
	/* a claim can be given up */
	assert_int_equal(add(f->store, "b", "k"), 0);
	assert_int_equal(store_build_remove(f->store, "a", NULL), 0);
	assert_int_equal(sandbox(f, "5", 2048), 0);
	assert_int_equal(room(f, "b", true), -ENOSPC);
	assert_int_equal(sandbox(f, "6", 512), -ENOSPC);
	assert_int_equal(room(f, "b", false), -ENOSPC);
	assert_int_equal(sandbox(f, "6", 512), 0);
}

/* Two claims would keep from each other what is enough for one. */
static void test_one_claims_at_a_time(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(sandbox(f, "1", 4096), 0);
	assert_int_equal(sandbox(f, "2", 4096), 0);
	assert_int_equal(add(f->store, "a", "k"), 0);
	assert_int_equal(add(f->store, "b", "k"), 0);
	assert_int_equal(room(f, "a", true), -ENOSPC);
	assert_int_equal(room(f, "b", true), -ENOSPC);
	stop(f, "1");
	assert_int_equal(room(f, "a", true), 0);
}

static void test_a_key_that_is_full_claims_nothing(void **state)
{
	struct fixture *f = *state;

	quota.key_memory_mib = 4096;
	assert_int_equal(sandbox(f, "1", 2048), 0);
	assert_int_equal(add(f->store, "a", "k"), 0);
	assert_int_equal(room(f, "a", true), -EDQUOT);
	assert_string_equal(f->taken, "key.sandbox.memory_mib");
	assert_int_equal(add(f->store, "b", "other"), 0);
	assert_int_equal(room(f, "b", true), 0);
	assert_int_equal(sandbox(f, "2", 2048), 0);
	stop(f, "1");
	stop(f, "2");
	assert_int_equal(room(f, "a", true), 0);
	assert_int_equal(sandbox(f, "3", 128), -EDQUOT);
}

/* What a sandbox has is its own when it starts anew: a claim is for what becomes free. */
static void test_a_claim_does_not_hinder_a_restart(void **state)
{
	struct fixture *f = *state;
	struct store_sandbox record;

	assert_int_equal(sandbox(f, "1", 8192), 0);
	assert_int_equal(store_sandbox_ready(f->store, "1", "none", 2, 1000, NULL), 0);
	assert_int_equal(add(f->store, "a", "k"), 0);
	assert_int_equal(room(f, "a", true), -ENOSPC);
	assert_int_equal(store_sandbox_get(f->store, NULL, "1", &record, NULL), 0);
	assert_int_equal(
		store_sandbox_restart(f->store, &record, "m2", &quota, 3, 1000, f->taken, NULL), 0);
	store_sandbox_fini(&record);
	assert_int_equal(room(f, "a", true), -ENOSPC);
	stop(f, "1");
	assert_int_equal(store_sandbox_get(f->store, NULL, "1", &record, NULL), 0);
	/* one that has none asks for it like any other */
	assert_int_equal(
		store_sandbox_restart(f->store, &record, "m3", &quota, 5, 1000, f->taken, NULL),
		-ENOSPC);
	store_sandbox_fini(&record);
	assert_int_equal(room(f, "a", true), 0);
}

static void test_what_a_dead_server_left(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(add(f->store, "a", "k"), 0);
	assert_int_equal(room(f, "a", false), 0);
	assert_int_equal(store_build_sweep(f->store, "this", NULL), 0);
	assert_int_equal(add(f->store, "a", "k"), -EEXIST);
	assert_int_equal(sandbox(f, "1", 8192), -ENOSPC);
	assert_int_equal(store_build_sweep(f->store, "next", NULL), 0);
	assert_int_equal(room(f, "a", false), -ENOENT);
	assert_int_equal(sandbox(f, "1", 8192), 0);
	assert_int_equal(add(f->store, "a", "k"), 0);
}

/* --- at once --- */

struct race {
	struct fixture *fixture;
	pthread_barrier_t *barrier;
	const char *name;
	int number, result;
};

static void *race_add(void *context)
{
	struct race *race = context;
	char owner[16];

	text_format(owner, sizeof(owner), "k%d", race->number);
	pthread_barrier_wait(race->barrier);
	race->result = add(race->fixture->store, race->name, owner);
	return NULL;
}

static void *race_room(void *context)
{
	struct race *race = context;
	char id[16], taken[ID_SIZE];

	text_format(id, sizeof(id), "s%d", race->number);
	pthread_barrier_wait(race->barrier);
	race->result = race->number % 2 ? sandbox(race->fixture, id, 4096)
					: store_build_room(race->fixture->store, race->name, &quota,
						  true, taken, NULL);
	return NULL;
}

static unsigned run_race(
	struct fixture *f, void *(*body)(void *), const char (*names)[16], int refusal)
{
	struct race races[THREADS];
	pthread_t threads[THREADS];
	pthread_barrier_t barrier;
	unsigned done = 0;

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		races[i] = (struct race){f, &barrier, names[i], i, 1};
		assert_int_equal(pthread_create(&threads[i], NULL, body, &races[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		done += races[i].result == 0;
		if (races[i].result)
			assert_int_equal(races[i].result, refusal);
	}
	pthread_barrier_destroy(&barrier);
	return done;
}

/* Both passed when two were asked for in the same instant. */
static void test_one_build_of_a_name(void **state)
{
	struct fixture *f = *state;
	char names[THREADS][16];

	for (int i = 0; i < THREADS; i++)
		text_copy(names[i], sizeof(names[i]), "course");
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(run_race(f, race_add, names, -EEXIST), 1);
		assert_int_equal(store_build_remove(f->store, "course", NULL), 0);
	}
}

static void test_builds_and_sandboxes_at_once(void **state)
{
	struct fixture *f = *state;
	struct store_quota used;
	char names[THREADS][16];

	quota.sandboxes = 100;
	quota.vcpu = 100;
	quota.memory_mib = 5 * 4096 + 100;
	for (int i = 0; i < THREADS; i++) {
		text_format(names[i], sizeof(names[i]), "b%d", i);
		assert_int_equal(add(f->store, names[i], "k"), 0);
	}
	assert_int_equal(run_race(f, race_room, names, -ENOSPC), 5);
	/* what is claimed beyond that is no promise; whoever has room already changes nothing */
	for (int i = 0; i < THREADS; i++)
		room(f, names[i], false);
	assert_int_equal(store_sandbox_totals(f->store, "k", &used, NULL), 0);
	assert_int_equal(used.memory_mib, 5 * 4096);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_room_is_promised_once),
		TEST(test_cpus_are_promised_once),
		TEST(test_what_becomes_free_is_kept_for_a_claim),
		TEST(test_one_claims_at_a_time),
		TEST(test_a_key_that_is_full_claims_nothing),
		TEST(test_a_claim_does_not_hinder_a_restart),
		TEST(test_what_a_dead_server_left),
		TEST(test_one_build_of_a_name),
		TEST(test_builds_and_sandboxes_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
