/* SPDX-License-Identifier: Apache-2.0 - finding a runner, and the limits programs run under. */
#include "grade/runner.h"

#include "grade/classify.h"

#include <errno.h>
#include <string.h>

struct limits runner_kill(const struct runner_plan *plan)
{
	return classify_kill_limits(&plan->assignment->limits, plan->sharing);
}

const struct runner *runner_find(const char *name)
{
	static const struct runner *const runners[] = {&runner_stdio,
#ifdef HAVE_RUNNER_SUITE
		&runner_suite,
#endif
		NULL};

	for (size_t i = 0; runners[i]; i++) {
		if (strcmp(runners[i]->name, name) == 0)
			return runners[i];
	}
	return NULL;
}

int runner_add_tests(const struct runner_plan *plan, struct submission_result *result)
{
	for (size_t i = 0; i < plan->test_count; i++) {
		struct test_result *t = submission_result_add(result, plan->tests[i].id);

		if (!t)
			return -ENOMEM;
		t->max_points = plan->tests[i].points;
	}
	return 0;
}
