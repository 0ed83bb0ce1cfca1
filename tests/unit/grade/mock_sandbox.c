/* SPDX-License-Identifier: Apache-2.0 - sandboxes that are a word list, see mock_sandbox.h. */
#include "mock_sandbox.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#define WORDS_MAX 40

struct mock_counts mock_counts;
unsigned mock_refuse, mock_exit_at;

struct sandbox {
	struct sandbox_info info;
	struct sandbox_end end;
	char words[500]; /* the program */
	unsigned number; /* of the machine, from 1 */
	unsigned fills;  /* of the workspace */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned running;

int sandbox_create(const struct sandbox_spec *spec, struct sandbox **out, struct error *err)
{
	struct sandbox *s;
	unsigned number;

	pthread_mutex_lock(&lock);
	if (mock_refuse) {
		mock_refuse -= mock_refuse != UINT_MAX;
		pthread_mutex_unlock(&lock);
		return error_set(err, -EIO, "refused");
	}
	number = ++mock_counts.machines;
	mock_counts.open++;
	pthread_mutex_unlock(&lock);
	s = calloc(1, sizeof(*s));
	s->number = number;
	text_copy(s->info.engine, sizeof(s->info.engine), "mock");
	text_copy(s->info.isolation, sizeof(s->info.isolation), "mock none");
	text_copy(s->info.kernel, sizeof(s->info.kernel), "mock\x1b");
	*out = s;
	return 0;
}

int sandbox_stop(struct sandbox *s, struct sandbox_usage *usage, struct error *err)
{
	if (usage)
		*usage = (struct sandbox_usage){.cpu_us = 1000, .memory_peak_bytes = 1 << 20};
	return 0;
}

void sandbox_free(struct sandbox *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&lock);
	mock_counts.open--;
	pthread_mutex_unlock(&lock);
	free(s);
}

const struct sandbox_info *sandbox_info(const struct sandbox *s)
{
	return &s->info;
}

const struct sandbox_end *sandbox_end(const struct sandbox *s)
{
	return s->end.reason ? &s->end : NULL;
}

void exec_result_fini(struct exec_result *r)
{
	buffer_fini(&r->out);
	buffer_fini(&r->err);
	buffer_fini(&r->report);
}

static int ended(struct sandbox *s, enum sandbox_stop_reason reason, struct error *err)
{
	s->end.reason = reason;
	text_copy(s->end.detail, sizeof(s->end.detail), "kernel panic");
	return error_set(err, -ENODEV, "the sandbox is over");
}

/* one word of the program; words that are arguments do nothing */
static int step(struct sandbox *s, const struct exec_spec *spec, const char *word,
	const char *argument, struct exec_result *r, struct error *err)
{
	uint32_t n = 0;
	bool first = s->number == 1;

	if (argument)
		text_u32(argument, &n);
	if (strcmp(word, "echo") == 0)
		buffer_add(&r->out, spec->stdin_bytes, spec->stdin_count);
	else if (strcmp(word, "print") == 0)
		buffer_add_text(&r->out, argument);
	else if (strcmp(word, "exit") == 0)
		r->status = n;
	else if (strcmp(word, "signal") == 0) {
		r->reason = WIRE_END_SIGNALED;
		r->status = n;
	} else if (strcmp(word, "cpu") == 0)
		r->cpu_us = n * 1000;
	else if (strcmp(word, "wall") == 0)
		r->wall_us = n * 1000;
	else if (strcmp(word, "disk") == 0 && s->fills == 1) {
		r->flags |= WIRE_EXIT_DISK_FULL;
		r->status = 1;
	} else if (strcmp(word, "slow") == 0) {
		struct pollfd fd = {.fd = spec->cancel_fd, .events = POLLIN};

		if (poll(&fd, 1, 20) > 0)
			return error_set(err, -EINTR, "cancelled");
	} else if (strcmp(word, "die") == 0 || (strcmp(word, "die-once") == 0 && first))
		return ended(s, SANDBOX_STOPPED_GUEST_ENDED, err);
	else if (strcmp(word, "lost") == 0 || (strcmp(word, "lost-once") == 0 && first))
		return ended(s, SANDBOX_STOPPED_MONITOR_LOST, err);
	return 0;
}

int sandbox_exec(struct sandbox *s, const struct exec_spec *spec, struct exec_result *result,
	struct error *err)
{
	char program[sizeof(s->words)], *rest = program, *words[WORDS_MAX + 1] = {NULL};
	size_t count = 0;
	int r = 0;

	pthread_mutex_lock(&lock);
	if (++mock_counts.execs == mock_exit_at)
		_exit(9);
	if (++running > mock_counts.most_at_once)
		mock_counts.most_at_once = running;
	pthread_mutex_unlock(&lock);
	text_copy(program, sizeof(program), s->words);
	while (count < WORDS_MAX && (words[count] = strsep(&rest, " \n")))
		count += *words[count] != 0;
	words[count] = NULL;
	for (size_t i = 0; i < count && !r; i++)
		r = step(s, spec, words[i], words[i + 1], result, err);
	result->stdout_bytes = buffer_length(&result->out);
	pthread_mutex_lock(&lock);
	running--;
	pthread_mutex_unlock(&lock);
	return r;
}

int sandbox_put_tree(struct sandbox *s, const char *path, int host_dir_fd, uint32_t uid,
	uint32_t gid, uint64_t limit_bytes, struct error *err)
{
	struct buffer b = {0};
	int fd = path_open_beneath(host_dir_fd, "hw.py", O_RDONLY, 0);

	if (fd < 0 || path_read_fd(fd, sizeof(s->words) - 1, &b))
		return error_set(err, -EIO, "no program");
	close(fd);
	text_copy(s->words, sizeof(s->words), buffer_text(&b));
	buffer_fini(&b);
	s->fills++;
	return 0;
}

int sandbox_list(struct sandbox *s, const char *path, uint32_t depth, uint32_t most, uint32_t as,
	struct sandbox_entry **out, size_t *count, struct error *err)
{
	*out = NULL;
	*count = 0;
	return 0;
}

void sandbox_entries_free(struct sandbox_entry *entries, size_t count)
{
	(void)count;
}

int sandbox_remove(
	struct sandbox *s, const char *path, bool recursive, uint32_t as, struct error *err)
{
	return 0;
}

int sandbox_chmod(
	struct sandbox *s, const char *path, uint32_t mode, uint32_t as, struct error *err)
{
	return 0;
}
