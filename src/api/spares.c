/* SPDX-License-Identifier: Apache-2.0 - machines that are no sandbox's, or not yet. */
#include "api/internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define ATTACH_MS 30000
#define GONE_MS   30000
#define LOOK_MS   2

/* Its keeper has cleared up after it: nobody tells, but its lock is gone. */
static void wait_gone(struct api_server *server, const char *machine)
{
	int64_t deadline = clock_deadline_ms(GONE_MS);
	const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
	struct sandbox_end end;

	while (sandbox_look(server->home, machine, &end, NULL) == 1 && clock_ms() < deadline)
		nanosleep(&pause, NULL);
}

void spare_discard(struct api_server *server, const char *machine)
{
	struct sandbox *s = NULL;
	struct error err = {0};
	int r = sandbox_attach(server->home, machine, ATTACH_MS, &s, &err);

	if (!r)
		r = sandbox_stop(s, NULL, &err);
	sandbox_free(s);
	if (r && r != -ENODEV)
		log_error("machine %s: %s", machine, error_message(&err));
	wait_gone(server, machine);
	sandbox_forget(server->home, machine);
	if (store_spare_remove(server->store, machine, &err))
		log_error("machine %s: %s", machine, error_message(&err));
}

struct machines {
	char (*list)[ID_SIZE];
	size_t count;
};

static int add_machine(void *context, const struct store_spare *spare)
{
	struct machines *all = context;
	void *more = realloc(all->list, (all->count + 1) * ID_SIZE);

	if (!more)
		return -ENOMEM;
	all->list = more;
	text_copy(all->list[all->count++], ID_SIZE, spare->id);
	return 0;
}

void spares_adopt(struct api_server *server)
{
	struct machines all = {0};
	struct error err = {0};

	if (store_spare_each(server->store, add_machine, &all, &err))
		log_error("%s", error_message(&err));
	for (size_t i = 0; i < all.count; i++)
		spare_discard(server, all.list[i]);
	free(all.list);
}
