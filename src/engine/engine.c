/* SPDX-License-Identifier: Apache-2.0 - the table of engines and the choice among them. */
#include "engine/engine.h"

#include <errno.h>
#include <string.h>

/* Strongest first. */
static const struct engine *const engines[] = {&engine_uml, &engine_fake, NULL};

const struct engine *const *engine_all(void)
{
	return engines;
}

static const struct engine *find_strongest(const char *home, struct error *err)
{
	struct error first = {0}, other = {0};

	for (int i = 0; engines[i]; i++) {
		if (engines[i]->strength <= 0)
			continue; /* isolates nothing: only by its name */
		if (engines[i]->probe(home, first.code ? &other : &first) == 0)
			return engines[i];
	}
	error_set(err, first.code ? first.code : -ENOTSUP, "no engine can run here: %s",
		error_message(&first));
	return NULL;
}

const struct engine *engine_find(const char *name, const char *home, struct error *err)
{
	if (!name || strcmp(name, "auto") == 0)
		return find_strongest(home, err);
	for (int i = 0; engines[i]; i++)
		if (strcmp(engines[i]->name, name) == 0)
			return engines[i];
	error_set(err, -EINVAL, "there is no engine '%s': use auto, uml or fake", name);
	return NULL;
}
