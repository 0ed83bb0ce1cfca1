/* SPDX-License-Identifier: Apache-2.0 - CPUs that are set aside: each is one sandbox's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/path.h"
#include "base/text.h"
#include "store/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SEATS   4
#define CREATES 12

struct fixture {
	char directory[64];
	struct store *store;
};

static struct store_quota quota;

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char path[96];

	quota = (struct store_quota){.sandboxes = 1000, .memory_mib = 1u << 30, .reserved = SEATS};
	text_copy(f->directory, sizeof(f->directory), "/tmp/sealmark-seats-XXXXXX");
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

static int add(struct store *store, const char *id, bool reserved, char *taken)
{
	char labels[] = "{}", spec[] = "{}";
	struct store_sandbox record = {.vcpu = 1,
		.memory_mib = 128,
		.created_ms = 1,
		.expires_ms = 2,
		.reserved = reserved,
		.labels = labels,
		.spec = spec};

	text_copy(record.id, sizeof(record.id), id);
	text_copy(record.owner, sizeof(record.owner), "k");
	return store_sandbox_add(store, &record, &quota, NULL, taken, NULL);
}

static uint32_t seat(struct fixture *f, const char *id)
{
	struct store_sandbox record;
	uint32_t out;

	assert_int_equal(store_sandbox_get(f->store, NULL, id, &record, NULL), 0);
	out = record.seat;
	assert_int_equal(record.reserved, out > 0);
	store_sandbox_fini(&record);
	return out;
}

static int restart(struct fixture *f, const char *id, char *taken)
{
	struct store_sandbox record;
	int r;

	assert_int_equal(store_sandbox_get(f->store, NULL, id, &record, NULL), 0);
	r = store_sandbox_restart(f->store, &record, "again", &quota, 5, 1000, taken, NULL);
	store_sandbox_fini(&record);
	return r;
}

static void each_has_its_own(void **state)
{
	struct fixture *f = *state;
	char taken[ID_SIZE] = "";

	assert_int_equal(add(f->store, "shares", false, taken), 0);
	assert_int_equal(seat(f, "shares"), 0);
	quota.reserved = 2;
	assert_int_equal(add(f->store, "a", true, taken), 0);
	assert_int_equal(add(f->store, "b", true, taken), 0);
	assert_int_equal(seat(f, "a"), 1);
	assert_int_equal(seat(f, "b"), 2);
	assert_int_equal(add(f->store, "c", true, taken), -ENOSPC);
	assert_string_equal(taken, "sandbox.reserved_vcpu");
	assert_int_equal(add(f->store, "more", false, taken), 0);
	assert_int_equal(store_sandbox_stopped(f->store, "a", "requested", "", 3, NULL), 0);
	assert_int_equal(add(f->store, "c", true, taken), 0);
	assert_int_equal(seat(f, "c"), 1);
	quota.reserved = 0;
	assert_int_equal(store_sandbox_stopped(f->store, "c", "requested", "", 3, NULL), 0);
	assert_int_equal(add(f->store, "d", true, taken), -ENOSPC);
}

static void a_paused_one_keeps_it(void **state)
{
	struct fixture *f = *state;
	char taken[ID_SIZE] = "";

	quota.reserved = 1;
	assert_int_equal(add(f->store, "a", true, taken), 0);
	assert_int_equal(store_sandbox_ready(f->store, "a", "uml", 2, 100, NULL), 0);
	assert_int_equal(store_sandbox_phase(f->store, "a", STORE_PHASE_PAUSING, NULL), 0);
	assert_int_equal(store_sandbox_paused(f->store, "a", 3, 90, NULL), 0);
	assert_int_equal(add(f->store, "b", true, taken), -ENOSPC);
}

static void a_restart_keeps_it_or_finds_another(void **state)
{
	struct fixture *f = *state;
	char taken[ID_SIZE] = "";

	quota.reserved = 3;
	assert_int_equal(add(f->store, "a", true, taken), 0);
	assert_int_equal(add(f->store, "b", true, taken), 0);
	assert_int_equal(store_sandbox_ready(f->store, "b", "uml", 2, 100, NULL), 0);
	assert_int_equal(store_sandbox_stopped(f->store, "a", "requested", "", 3, NULL), 0);
	/* its machine before may not have ended on it yet, so not a's, which is lower */
	assert_int_equal(restart(f, "b", taken), 0);
	assert_int_equal(seat(f, "b"), 2);
	assert_int_equal(add(f->store, "c", true, taken), 0);
	assert_int_equal(seat(f, "c"), 1);
	assert_int_equal(restart(f, "a", taken), 0);
	assert_int_equal(seat(f, "a"), 3);
	assert_int_equal(store_sandbox_stopped(f->store, "a", "requested", "", 6, NULL), 0);
	quota.reserved = 2;
	assert_int_equal(restart(f, "a", taken), -ENOSPC);
	assert_string_equal(taken, "sandbox.reserved_vcpu");
}

struct creator {
	struct store *store;
	char id[ID_SIZE];
	int result;
};

static void *create(void *context)
{
	struct creator *c = context;
	char taken[ID_SIZE];

	c->result = add(c->store, c->id, true, taken);
	return NULL;
}

static void creates_at_once_cannot_share(void **state)
{
	struct fixture *f = *state;
	struct creator creators[CREATES];
	pthread_t threads[CREATES];
	unsigned seen = 0;
	int made = 0;

	for (int i = 0; i < CREATES; i++) {
		creators[i] = (struct creator){.store = f->store};
		text_format(creators[i].id, sizeof(creators[i].id), "n%d", i);
		assert_int_equal(pthread_create(&threads[i], NULL, create, &creators[i]), 0);
	}
	for (int i = 0; i < CREATES; i++) {
		pthread_join(threads[i], NULL);
		if (creators[i].result) {
			assert_int_equal(creators[i].result, -ENOSPC);
			continue;
		}
		made++;
		seen |= 1u << seat(f, creators[i].id);
	}
	assert_int_equal(made, SEATS);
	assert_int_equal(seen, 0x1e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_has_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(a_paused_one_keeps_it, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_restart_keeps_it_or_finds_another, setup, teardown),
		cmocka_unit_test_setup_teardown(creates_at_once_cannot_share, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
