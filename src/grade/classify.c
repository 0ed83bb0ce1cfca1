/* SPDX-License-Identifier: Apache-2.0 - verdicts from endings, see classify.h. */
#include "grade/classify.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <signal.h>
#include <string.h>

#define LAST_WORDS 4096u /* bytes at the end of stderr that are looked at */

/* What failed programs say last about a limit they ran into; the first row that matches counts. */
static const struct {
	const char *words;
	enum verdict verdict;
} last_words[] = {
	{"unable to create native thread", VERDICT_PROCESS_LIMIT},
	{"can't start new thread", VERDICT_PROCESS_LIMIT},
	{"fork: retry: Resource temporarily unavailable", VERDICT_PROCESS_LIMIT},
	{"No space left on device", VERDICT_DISK_LIMIT},
	{"File too large", VERDICT_DISK_LIMIT},
	{"Disk quota exceeded", VERDICT_DISK_LIMIT},
	{"MemoryError", VERDICT_MEMORY_LIMIT},
	{"std::bad_alloc", VERDICT_MEMORY_LIMIT},
	{"java.lang.OutOfMemoryError", VERDICT_MEMORY_LIMIT},
	{"JavaScript heap out of memory", VERDICT_MEMORY_LIMIT},
	{"Cannot allocate memory", VERDICT_MEMORY_LIMIT},
	{"virtual memory exhausted", VERDICT_MEMORY_LIMIT},
	{"out of memory allocating", VERDICT_MEMORY_LIMIT},
};

/* Signals by name; sent: what kill, shells and terminals send, not what a crash raises. */
static const struct {
	int number;
	const char *name;
	bool sent;
} signals[] = {
	{SIGHUP, "SIGHUP", true},
	{SIGINT, "SIGINT", true},
	{SIGQUIT, "SIGQUIT", true},
	{SIGILL, "SIGILL", false},
	{SIGTRAP, "SIGTRAP", false},
	{SIGABRT, "SIGABRT", false},
	{SIGBUS, "SIGBUS", false},
	{SIGFPE, "SIGFPE", false},
	{SIGKILL, "SIGKILL", true},
	{SIGUSR1, "SIGUSR1", true},
	{SIGSEGV, "SIGSEGV", false},
	{SIGUSR2, "SIGUSR2", true},
	{SIGPIPE, "SIGPIPE", false},
	{SIGALRM, "SIGALRM", true},
	{SIGTERM, "SIGTERM", true},
	{SIGXCPU, "SIGXCPU", false},
	{SIGXFSZ, "SIGXFSZ", false},
	{SIGSYS, "SIGSYS", false},
};

const char *classify_signal(uint32_t number, char *out, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		if ((uint32_t)signals[i].number == number)
			return signals[i].name;
	}
	text_format(out, size, "signal %u", number);
	return out;
}

static bool is_sent(uint32_t number)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		if ((uint32_t)signals[i].number == number)
			return signals[i].sent;
	}
	return true;
}

int64_t classify_cpu_ms(const struct exec_result *run)
{
	return (int64_t)(run->cpu_us / 1000);
}

bool classify_last_words(const void *bytes, size_t count, enum verdict *out)
{
	const char *p = bytes;

	if (count == 0)
		return false;
	if (count > LAST_WORDS) {
		p += count - LAST_WORDS;
		count = LAST_WORDS;
	}
	for (size_t i = 0; i < ARRAY_SIZE(last_words); i++) {
		if (memmem(p, count, last_words[i].words, strlen(last_words[i].words))) {
			*out = last_words[i].verdict;
			return true;
		}
	}
	return false;
}

/* the last line of stderr that is not empty: what interpreters say of an exception */
static void add_last_line(struct buffer *detail, const struct buffer *err)
{
	const uint8_t *start = buffer_bytes(err);
	size_t n = buffer_length(err), from, shown;

	while (n && (start[n - 1] == '\n' || start[n - 1] == '\r' || start[n - 1] == ' '))
		n--;
	for (from = n; from && start[from - 1] != '\n'; from--)
		;
	if (from == n)
		return;
	shown = n - from < 200 ? n - from : 200;
	buffer_add_text(detail, ": ");
	text_add_safe(detail, start + from, shown, false);
	if (shown < n - from)
		buffer_add_text(detail, "…");
}

/* rule 1: true when a limit decided */
static bool by_limit(const struct exec_result *run, const struct limits *limits,
	enum verdict *verdict, struct buffer *detail)
{
	int64_t cpu_ms = classify_cpu_ms(run), wall_ms = (int64_t)(run->wall_us / 1000);
	bool killed = run->reason == WIRE_END_KILLED;
	bool timed = run->reason == WIRE_END_CPU_LIMIT || run->reason == WIRE_END_WALL_LIMIT;

	/* a fork bomb is ended by a time limit, which is not what was wrong with it */
	if (timed && run->flags & WIRE_EXIT_PIDS) {
		*verdict = VERDICT_PROCESS_LIMIT;
		buffer_printf(detail, "more than %u processes, until the %s", limits->processes,
			wire_end_name(run->reason));
		return true;
	}
	if (run->reason == WIRE_END_CPU_LIMIT || (killed && run->status == WIRE_KILL_CPU) ||
		cpu_ms > limits->cpu_ms) {
		*verdict = VERDICT_CPU_LIMIT;
		buffer_printf(
			detail, "used more than %lld ms of CPU time", (long long)limits->cpu_ms);
		return true;
	}
	if (run->reason == WIRE_END_WALL_LIMIT || (killed && run->status == WIRE_KILL_WALL) ||
		wall_ms > limits->wall_ms) {
		*verdict = VERDICT_WALL_LIMIT;
		buffer_printf(detail, "ran for more than %lld ms (%lld ms of CPU time)",
			(long long)limits->wall_ms, (long long)cpu_ms);
		return true;
	}
	if (run->reason == WIRE_END_MEMORY_LIMIT) {
		*verdict = VERDICT_MEMORY_LIMIT;
		buffer_printf(detail, "used more than %llu MiB of memory",
			(unsigned long long)(limits->memory_bytes >> 20));
		return true;
	}
	if (run->reason == WIRE_END_OUTPUT_LIMIT ||
		run->flags & (WIRE_EXIT_STDOUT_CUT | WIRE_EXIT_STDERR_CUT)) {
		*verdict = VERDICT_OUTPUT_LIMIT;
		buffer_printf(detail, "printed more than %llu bytes",
			(unsigned long long)limits->output_bytes);
		return true;
	}
	if (run->reason == WIRE_END_FILE_LIMIT) {
		*verdict = VERDICT_DISK_LIMIT;
		buffer_printf(detail, "wrote a file larger than %llu bytes",
			(unsigned long long)limits->file_bytes);
		return true;
	}
	return false;
}

/* rule 3: true when a cause of the failure is known */
static bool by_cause(const struct exec_result *run, enum verdict *verdict, struct buffer *detail)
{
	bool failing = run->reason != WIRE_END_EXITED || run->status != 0;

	if (run->flags & WIRE_EXIT_OOM) {
		*verdict = VERDICT_MEMORY_LIMIT;
		buffer_add_text(detail, "a process of it was ended for using too much memory");
	} else if (run->flags & WIRE_EXIT_DISK_FULL) {
		*verdict = VERDICT_DISK_LIMIT;
		buffer_add_text(detail, "the disk was full");
	} else if (run->flags & WIRE_EXIT_PIDS) {
		*verdict = VERDICT_PROCESS_LIMIT;
		buffer_add_text(detail, "a new process or thread was refused");
	} else if (failing && classify_last_words(
				      buffer_bytes(&run->err), buffer_length(&run->err), verdict)) {
		buffer_printf(detail, "%s", verdict_text(*verdict));
		add_last_line(detail, &run->err);
	} else {
		return false;
	}
	return true;
}

enum verdict classify_run(const struct exec_result *run, const struct limits *limits, bool right,
	bool output_expected, struct buffer *detail)
{
	enum verdict verdict;
	char name[24];

	if (by_limit(run, limits, &verdict, detail))
		return verdict;
	if (run->reason == WIRE_END_EXITED && run->status == 0 && right)
		return VERDICT_PASSED;
	if (by_cause(run, &verdict, detail))
		return verdict;
	if (run->reason == WIRE_END_SIGNALED) {
		buffer_printf(
			detail, "ended by %s", classify_signal(run->status, name, sizeof(name)));
		add_last_line(detail, &run->err);
		return is_sent(run->status) ? VERDICT_ENDED_EARLY : VERDICT_ERROR;
	}
	if (run->reason != WIRE_END_EXITED) {
		buffer_printf(detail, "ended by: %s", wire_end_name(run->reason));
		return VERDICT_ENDED_EARLY;
	}
	if (run->status != 0) {
		buffer_printf(detail, "exit status %u%s", run->status,
			right ? " (with the right output)" : "");
		add_last_line(detail, &run->err);
		return VERDICT_ERROR;
	}
	if (output_expected && run->stdout_bytes == 0) {
		buffer_add_text(detail, "ended without printing anything");
		return VERDICT_ENDED_EARLY;
	}
	return VERDICT_FAILED;
}

bool classify_was_starved(const struct exec_result *run, const struct limits *limits)
{
	bool wall = run->reason == WIRE_END_WALL_LIMIT ||
		    (run->reason == WIRE_END_KILLED && run->status == WIRE_KILL_WALL);

	return wall && run->cpu_from_host && run->guest_cpu_us >= run->wall_us / 5 * 4 &&
	       run->cpu_us <= run->guest_cpu_us / 10 * 6 && classify_cpu_ms(run) <= limits->cpu_ms;
}

static bool within(int64_t measured, int64_t limit, unsigned sharing)
{
	return measured >= limit - limit / 10 &&
	       measured <= (limit + limit / 10) * (sharing ? sharing : 1);
}

bool classify_is_near(const struct test_result *t, const struct limits *limits, unsigned sharing)
{
	/* other verdicts do not depend on time */
	bool timed = t->verdict == VERDICT_PASSED || t->verdict == VERDICT_CPU_LIMIT ||
		     t->verdict == VERDICT_WALL_LIMIT;

	/* far over its CPU time it stays, however long the clock ran beside it */
	if (t->cpu_ms > limits->cpu_ms + limits->cpu_ms / 10)
		return false;
	return timed && (within(t->cpu_ms, limits->cpu_ms, 1) ||
				within(t->wall_ms, limits->wall_ms, sharing));
}

struct limits classify_kill_limits(const struct limits *limits, unsigned sharing)
{
	struct limits kill = *limits;

	/* 20 %: well apart from the 10 % that are measured again */
	kill.cpu_ms += kill.cpu_ms / 5 + 10;
	kill.wall_ms = (kill.wall_ms + kill.wall_ms / 5 + 10) * (sharing ? sharing : 1);
	return kill;
}
