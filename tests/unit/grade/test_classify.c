/* SPDX-License-Identifier: Apache-2.0 - from endings to verdicts, and times near a limit. */
#include "grade/classify.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct limits limits = {.cpu_ms = 1000,
	.wall_ms = 5000,
	.memory_bytes = 256 << 20,
	.processes = 64,
	.output_bytes = 1000,
	.disk_bytes = 1 << 20,
	.file_bytes = 1 << 20};

struct row {
	struct exec_result run;
	const char *err; /* its stderr */
	bool right;
	enum verdict verdict;
	const char *detail; /* begins so; NULL: none */
};

#define EXIT(code) .reason = WIRE_END_EXITED, .status = code
#define SIGNAL(n)  .reason = WIRE_END_SIGNALED, .status = n
#define CPU(ms)    .cpu_us = (ms)*1000
#define WALL(ms)   .wall_us = (ms)*1000
#define PRINTED(n) .stdout_bytes = n

static const struct row rows[] = {
	{{EXIT(0), PRINTED(1)}, "", true, VERDICT_PASSED, NULL},
	{{EXIT(0), PRINTED(1)}, "", false, VERDICT_FAILED, NULL},
	{{EXIT(0)}, "", false, VERDICT_ENDED_EARLY, "ended without printing"},
	{{EXIT(3), PRINTED(1)}, "", true, VERDICT_ERROR, "exit status 3 (with the right output)"},
	{{EXIT(1), PRINTED(1)}, "Traceback\nNameError: x\n\n", false, VERDICT_ERROR,
		"exit status 1: NameError: x"},
	{{SIGNAL(SIGSEGV)}, "", false, VERDICT_ERROR, "ended by SIGSEGV"},
	{{SIGNAL(SIGABRT)}, "assert\n", true, VERDICT_ERROR, "ended by SIGABRT: assert"},
	{{SIGNAL(SIGKILL)}, "", true, VERDICT_ENDED_EARLY, "ended by SIGKILL"},
	{{SIGNAL(40)}, "", false, VERDICT_ENDED_EARLY, "ended by signal 40"},
	/* limits that ended it */
	{{.reason = WIRE_END_CPU_LIMIT, CPU(1200)}, "", false, VERDICT_CPU_LIMIT, "used more"},
	{{.reason = WIRE_END_WALL_LIMIT, WALL(6000)}, "", false, VERDICT_WALL_LIMIT, "ran for"},
	{{.reason = WIRE_END_MEMORY_LIMIT}, "", true, VERDICT_MEMORY_LIMIT,
		"used more than 256 MiB"},
	{{.reason = WIRE_END_OUTPUT_LIMIT}, "", true, VERDICT_OUTPUT_LIMIT, "printed more"},
	{{.reason = WIRE_END_FILE_LIMIT}, "", true, VERDICT_DISK_LIMIT, "wrote a file"},
	{{.reason = WIRE_END_KILLED, .status = WIRE_KILL_CPU}, "", true, VERDICT_CPU_LIMIT, "used"},
	{{.reason = WIRE_END_KILLED, .status = WIRE_KILL_WALL}, "", true, VERDICT_WALL_LIMIT,
		"ran"},
	{{.reason = WIRE_END_CPU_LIMIT, CPU(1200), .flags = WIRE_EXIT_PIDS}, "", false,
		VERDICT_PROCESS_LIMIT, "more than 64 processes"},
	/* measured over a limit although it ended by itself with the right answer */
	{{EXIT(0), CPU(1001), PRINTED(1)}, "", true, VERDICT_CPU_LIMIT, "used more"},
	{{EXIT(0), CPU(1000), PRINTED(1)}, "", true, VERDICT_PASSED, NULL},
	{{EXIT(0), WALL(5001), PRINTED(1)}, "", true, VERDICT_WALL_LIMIT, "ran for"},
	{{EXIT(0), PRINTED(2000), .flags = WIRE_EXIT_STDOUT_CUT}, "", true, VERDICT_OUTPUT_LIMIT,
		"printed more"},
	/* what the kernel saw explains failures and takes nothing from what is right */
	{{EXIT(0), PRINTED(1), .flags = WIRE_EXIT_OOM | WIRE_EXIT_PIDS | WIRE_EXIT_DISK_FULL}, "",
		true, VERDICT_PASSED, NULL},
	{{EXIT(137), .flags = WIRE_EXIT_OOM}, "", false, VERDICT_MEMORY_LIMIT, "a process of it"},
	{{EXIT(0), PRINTED(1), .flags = WIRE_EXIT_PIDS}, "", false, VERDICT_PROCESS_LIMIT, "a new"},
	{{EXIT(1), .flags = WIRE_EXIT_DISK_FULL}, "", false, VERDICT_DISK_LIMIT, "the disk"},
	/* last words of a failure; with status 0 they are only words */
	{{EXIT(1)}, "MemoryError\n", false, VERDICT_MEMORY_LIMIT, "memory limit: MemoryError"},
	{{EXIT(0), PRINTED(1)}, "MemoryError\n", false, VERDICT_FAILED, NULL},
	{{EXIT(0), PRINTED(1)}, "MemoryError\n", true, VERDICT_PASSED, NULL},
	{{SIGNAL(SIGABRT)}, "terminate called after throwing 'std::bad_alloc'\n", false,
		VERDICT_MEMORY_LIMIT, "memory limit"},
	{{EXIT(1)}, "OSError: [Errno 28] No space left on device\n", false, VERDICT_DISK_LIMIT,
		"disk limit"},
	{{EXIT(1)}, "java.lang.OutOfMemoryError: unable to create native thread\n", false,
		VERDICT_PROCESS_LIMIT, "process limit"},
	{{EXIT(1)}, "java.lang.OutOfMemoryError: Java heap space\n", false, VERDICT_MEMORY_LIMIT,
		"memory limit"},
};

static void test_rows(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct exec_result run = rows[i].run;
		struct buffer detail = {0};
		enum verdict v;

		buffer_add_text(&run.err, rows[i].err);
		v = classify_run(&run, &limits, rows[i].right, true, &detail);
		if (v != rows[i].verdict)
			fail_msg("row %zu: %s, not %s", i, verdict_name(v),
				verdict_name(rows[i].verdict));
		assert_int_equal(buffer_length(&detail) == 0, rows[i].detail == NULL);
		if (rows[i].detail &&
			strncmp(buffer_text(&detail), rows[i].detail, strlen(rows[i].detail)))
			fail_msg("row %zu: %s", i, buffer_text(&detail));
		buffer_fini(&detail);
		buffer_fini(&run.err);
	}
}

/* No words of a program's own may ever earn points: whatever it prints, what is not right or does
 * not end with 0 has not passed. */
static void test_nothing_earned(void **state)
{
	static const char *const words[] = {"", "MemoryError", "No space left on device", "passed"};

	for (unsigned reason = 0; reason < WIRE_END_COUNT; reason++) {
		for (unsigned flags = 0; flags < 128; flags++) {
			for (unsigned k = 0; k < 16; k++) {
				struct exec_result run = {.reason = (enum wire_ending)reason,
					.status = k & 1,
					.flags = flags,
					.stdout_bytes = k >> 1 & 1};
				struct buffer detail = {0};
				enum verdict v;

				buffer_add_text(&run.err, words[k >> 2]);
				v = classify_run(&run, &limits, false, true, &detail);
				assert_int_not_equal(v, VERDICT_PASSED);
				assert_int_not_equal(v, VERDICT_INFRA);
				if (reason != WIRE_END_EXITED || run.status)
					assert_int_not_equal(
						classify_run(&run, &limits, true, true, &detail),
						VERDICT_PASSED);
				buffer_fini(&detail);
				buffer_fini(&run.err);
			}
		}
	}
}

static bool near(enum verdict v, int64_t cpu_ms, int64_t wall_ms, unsigned sharing)
{
	const struct test_result t = {.verdict = v, .cpu_ms = cpu_ms, .wall_ms = wall_ms};

	return classify_is_near(&t, &limits, sharing);
}

static void test_near(void **state)
{
	struct limits kill = classify_kill_limits(&limits, 1);

	assert_false(near(VERDICT_PASSED, 899, 1000, 1));
	assert_true(near(VERDICT_PASSED, 900, 1000, 1));
	assert_true(near(VERDICT_CPU_LIMIT, 1001, 1100, 1));
	assert_true(near(VERDICT_CPU_LIMIT, 1100, 1100, 1));
	assert_false(near(VERDICT_CPU_LIMIT, 1101, 1200, 1));
	assert_true(near(VERDICT_PASSED, 10, 4500, 1));
	assert_true(near(VERDICT_WALL_LIMIT, 10, 5500, 1));
	assert_false(near(VERDICT_WALL_LIMIT, 10, 5501, 1));
	assert_true(near(VERDICT_WALL_LIMIT, 10, 5501, 2));
	/* a loop that had to share its CPU ran long by the clock, and is a loop all the same */
	assert_false(near(VERDICT_CPU_LIMIT, 1201, 4600, 1));
	assert_false(near(VERDICT_FAILED, 1000, 1000, 1));
	/* what is killed is never near */
	assert_true(kill.cpu_ms > 1100 && kill.wall_ms > 5500);
	assert_false(near(VERDICT_CPU_LIMIT, kill.cpu_ms, kill.cpu_ms, 1));
	assert_false(near(VERDICT_WALL_LIMIT, 10, kill.wall_ms, 1));
	assert_int_equal(classify_kill_limits(&limits, 4).wall_ms, 4 * kill.wall_ms);
	assert_int_equal(classify_kill_limits(&limits, 4).cpu_ms, kill.cpu_ms);
}

/* A loop on a host that gave its machine a fifth of the time was told it had waited too long. */
static void test_starved(void **state)
{
	struct exec_result run = {.reason = WIRE_END_WALL_LIMIT,
		.wall_us = 6000000,
		.cpu_us = 900000,
		.guest_cpu_us = 5900000,
		.cpu_from_host = true};

	assert_true(classify_was_starved(&run, &limits));
	run.cpu_us = 1100000; /* over its CPU limit, however long that took */
	assert_false(classify_was_starved(&run, &limits));
	run.cpu_us = run.guest_cpu_us = 900000; /* it waited by itself */
	assert_false(classify_was_starved(&run, &limits));
	run.guest_cpu_us = 5900000;
	run.cpu_from_host = false; /* nobody knows */
	assert_false(classify_was_starved(&run, &limits));
	run.cpu_from_host = true;
	run.reason = WIRE_END_EXITED;
	assert_false(classify_was_starved(&run, &limits));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_nothing_earned),
		cmocka_unit_test(test_near),
		cmocka_unit_test(test_starved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
