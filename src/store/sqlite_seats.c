/* SPDX-License-Identifier: Apache-2.0 - which CPU is whose, of those that are set aside. */
#include "store/sqlite_internal.h"

#include "base/text.h"
#include "store/money_internal.h"

#include <errno.h>

/* The lowest that no other has; *own: the one it had is free. */
static int lowest_free(struct store *store, const struct store_sandbox *sandbox, uint32_t *out,
	bool *own, struct error *err)
{
	/* one that is paused keeps its CPU: it can always wake */
	sqlite3_stmt *s = store_prepare(store, err,
		"SELECT DISTINCT seat FROM sandbox WHERE state < 3 AND seat > 0 AND id <> ?"
		" ORDER BY seat",
		"s", sandbox->id);
	uint32_t taken;
	int r;

	*out = 1;
	*own = sandbox->seat > 0;
	while ((r = store_row(store, s, err)) == 0) {
		taken = (uint32_t)sqlite3_column_int64(s, 0);
		*out += taken == *out;
		*own = *own && taken != sandbox->seat;
	}
	store_done(store, s);
	if (r == -ENOENT) { /* the end of the rows is no failure */
		r = 0;
		if (err)
			*err = (struct error){0};
	}
	return r;
}

int store_seat(struct store *store, const struct store_sandbox *sandbox, uint64_t seats,
	uint32_t *out, char *taken, struct error *err)
{
	bool own;
	int r;

	*out = 0;
	if (!sandbox->reserved)
		return 0;
	r = lowest_free(store, sandbox, out, &own, err);
	if (r)
		return r;
	/* what it had until now may not have ended on it yet */
	if (own && sandbox->seat <= seats)
		*out = sandbox->seat;
	if (*out <= seats)
		return 0;
	text_copy(taken, ID_SIZE, "sandbox.reserved_vcpu");
	return error_set(err, -ENOSPC,
		"1 more is asked for, and none of %llu reserved CPUs is left",
		(unsigned long long)seats);
}
