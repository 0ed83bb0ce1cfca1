/* SPDX-License-Identifier: Apache-2.0 - all of sandbox.h without a machine, for tests of a run. */
#ifndef SEALMARK_TESTS_UNIT_GRADE_MOCK_SANDBOX_H
#define SEALMARK_TESTS_UNIT_GRADE_MOCK_SANDBOX_H

#include <stdbool.h>

/*
 * What a program does stands in the file hw.py of its submission, as words; each exec:
 *
 *	echo		prints its input		print TEXT	prints that
 *	exit N, signal N, cpu MS, wall MS		as they say
 *	slow		takes some milliseconds, until cancelled
 *	die		the machine ends while it runs
 *	die-once	as die, in the first machine of the process only
 *	lost		the monitor is lost: a failure of ours
 *	lost-once	in the first machine only
 *	disk		finds the disk full unless the workspace was filled anew
 */
struct mock_counts {
	unsigned machines;     /* made */
	unsigned open;         /* not freed yet */
	unsigned execs;        /* in all */
	unsigned most_at_once; /* execs at one time */
};
extern struct mock_counts mock_counts;
/* Machines that cannot be made, counted down; UINT_MAX: none ever can. */
extern unsigned mock_refuse;
/* _exit(9) in the exec with this number, 0: never. */
extern unsigned mock_exit_at;

#endif
