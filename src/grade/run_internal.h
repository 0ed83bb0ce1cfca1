/* SPDX-License-Identifier: Apache-2.0 - what the files of a grading run share. */
#ifndef SEALMARK_GRADE_RUN_INTERNAL_H
#define SEALMARK_GRADE_RUN_INTERNAL_H

#include "base/clock.h"
#include "engine/engine.h"
#include "grade/record.h"
#include "grade/run.h"
#include "grade/runner.h"
#include "image/image.h"
#include "intake/intake.h"
#include "sandbox/sandbox.h"

#include <pthread.h>
#include <sched.h>

#define RUN_JOBS_MAX    1024u
#define RUN_TRIES       3u /* machines for one submission before it is left to us */
#define RUN_CPUS_MAX    CPU_SETSIZE
#define RUN_MACHINE_MIB 96u /* memory of a machine beside the program's and its disk */

/* A record on its way to the consumer. */
struct run_item {
	struct run_item *next;
	char *body;
};

struct run_worker {
	struct run *run;
	unsigned index;
	pthread_t thread;
	bool started;
};

struct run {
	struct run_spec spec;
	const struct engine *engine;
	const struct runner *runner;
	struct runner_plan plan;
	struct image *image;
	struct intake *intake; /* NULL until the tests are known */
	char image_reference[IMAGE_NAME_MAX + IMAGE_VERSION_MAX + 2];
	char started[CLOCK_STAMP_SIZE];
	int64_t id;
	int work_fd;

	/* the machines' shape */
	uint32_t memory_mib, disk_mib, files_most;
	int64_t lease_ms;
	unsigned jobs;
	int cpus[RUN_CPUS_MAX];
	unsigned cpu_count;

	struct run_worker *workers;
	unsigned worker_count;
	int stop_fd;  /* readable once the run is stopped; also the runners' cancel_fd */
	int event_fd; /* readable when there is something for the consumer */

	pthread_mutex_t lock; /* for what follows */
	pthread_cond_t changed;
	struct run_item *first, **last;
	bool stopped;
	unsigned live;         /* workers that have not ended */
	unsigned active;       /* jobs in work */
	uint64_t starts, ends; /* jobs ever started and ended */
	size_t total, kept, before, done, again;
	unsigned failed_in_row; /* submissions left to us, one after the other */
	bool any_graded;
	struct error fatal; /* code 0: none */
};

/* run_machine.c: the shape of machines, and a new one */
int run_shape(struct run *run, char *notice, struct error *err);
int run_make_sandbox(struct run *run, int cpu, struct sandbox **out, struct error *err);

/* run_worker.c: a thread's main */
void *run_worker_main(void *worker);
/* Hand a record to the consumer; takes body. The lock must not be held. */
void run_publish(struct run *run, char *body);
/* Stop with a reason, the first one counts. */
void run_fail(struct run *run, const struct error *why);
bool run_is_stopped(struct run *run);
void run_signal(struct run *run); /* make event_fd readable */

#endif
