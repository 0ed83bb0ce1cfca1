/* SPDX-License-Identifier: Apache-2.0 - sealmark sandbox ls, get, stop, pause, wake, extend, rm. */
#include "cli/remote.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

struct verb_options {
	struct remote_options remote;
	struct cli_texts labels;
	int64_t by_ms, wait_ms;
	const char *wait_for;
	bool missing_ok;
};

/* --- one sandbox for people --- */

static void put_field(const char *name, const char *value)
{
	if (!value || !*value)
		return;
	printf("%-12s ", name);
	remote_put(stdout, value);
	putchar('\n');
}

static void put_labels(const json_t *sandbox)
{
	const char *name;
	json_t *value;

	json_object_foreach (json_object_get(sandbox, "labels"), name, value) {
		struct buffer pair = {0};

		buffer_printf(&pair, "%s=%s", name, json_string_value(value));
		put_field("label", buffer_text(&pair));
		buffer_fini(&pair);
	}
}

static void put_sandbox(const json_t *s)
{
	char shape[128], money[64], age[32];

	put_field("id", json_text(s, "id"));
	put_field("name", json_text(s, "name"));
	put_labels(s);
	put_field("state", json_text(s, "state"));
	put_field("stopped", json_text(s, "stopReason"));
	put_field("detail", json_text(s, "stopDetail"));
	put_field("image", json_text(s, "image"));
	put_field("isolation", json_text(s, "isolation"));
	text_format(shape, sizeof(shape), "%lld CPU, %lld MiB memory, %lld MiB disk",
		(long long)json_number(s, "vcpu"), (long long)json_number(s, "memoryMiB"),
		(long long)json_number(s, "diskMiB"));
	put_field("shape", shape);
	remote_age(json_text(s, "createdAt"), age, sizeof(age));
	put_field("created", age);
	if (strcmp(json_text(s, "state"), "stopped") != 0) {
		remote_age(json_text(s, "expiresAt"), age, sizeof(age));
		text_format(shape, sizeof(shape), "%s, then %s", age, json_text(s, "onLeaseEnd"));
		put_field("lease ends", shape);
	}
	remote_dollars(json_number(s, "chargedMicros"), money, sizeof(money));
	put_field("charged", money);
}

static int show(json_t *answer, bool json, struct error *err)
{
	if (json)
		return remote_print_json(answer, err);
	put_sandbox(answer);
	json_decref(answer);
	return CLI_OK;
}

static int run_get(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct verb_options *o = options;
	struct buffer path = {0};
	json_t *answer = NULL;
	struct remote *r;
	int status = remote_open(&o->remote, &r, err);

	if (!status)
		status = remote_sandbox_path(r, operands[0], "", &path, err);
	if (!status && o->wait_for) {
		remote_query(&path, "waitFor", o->wait_for);
		remote_query(&path, "timeoutSeconds", "60");
	}
	if (!status)
		status = remote_call(r,
			&(struct remote_call){
				.method = "GET", .path = buffer_text(&path), .about = operands[0]},
			&answer, err);
	if (!status)
		status = show(answer, o->remote.json, err);
	buffer_fini(&path);
	remote_free(r);
	return status;
}

/* --- what changes them --- */

/* What was asked for had been done before: fine, but not what its caller may think. */
static void say_already(const char *box, const json_t *answer)
{
	char age[32];
	bool deleted = strcmp(json_text(answer, "status"), "deleted") == 0;

	remote_age(json_text(answer, deleted ? "deletedAt" : "endedAt"), age, sizeof(age));
	if (deleted)
		log_warning("%s was removed already, %s", box, age);
	else
		log_warning("%s was stopped already, %s (%s)", box, age,
			json_text(answer, "stopReason"));
}

/* The same change to each BOX; the first failure does not keep the rest from it. */
static int each(const struct verb_options *o, const char *const *operands, const char *method,
	const char *suffix, json_t *body, struct error *err)
{
	struct remote *r;
	int result = remote_open(&o->remote, &r, err);

	for (size_t i = 0; !result && operands[i]; i++) {
		struct buffer path = {0};
		struct error why = {0};
		json_t *answer = NULL;
		int status = remote_sandbox_path(r, operands[i], suffix, &path, &why);

		if (!status)
			status = remote_call(r,
				&(struct remote_call){.method = method,
					.path = buffer_text(&path),
					.body = json_incref(body),
					.wait_ms = o->wait_ms,
					.about = operands[i]},
				&answer, &why);
		buffer_fini(&path);
		if (!status && o->remote.json)
			remote_print_line(answer);
		else if (!status && json_is_true(json_object_get(answer, "already")))
			say_already(operands[i], answer);
		json_decref(answer);
		if (status && o->missing_ok &&
			(strcmp(remote_code(r), "not_found") == 0 || why.code == -EINVAL))
			continue;
		if (!status)
			continue;
		if (operands[i + 1] && status <= CLI_OURS) {
			log_error("%s", error_message(&why));
			result = result ? result : status;
			continue;
		}
		*err = why;
		result = status;
	}
	json_decref(body);
	remote_free(r);
	return result;
}

static int run_stop(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	return each(options, operands, "POST", ":stop", NULL, err);
}

static int run_pause(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	return each(options, operands, "POST", ":pause", NULL, err);
}

static int run_wake(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	return each(options, operands, "POST", ":wake", NULL, err);
}

static int run_rm(const void *options, const char *const *operands, size_t count, struct error *err)
{
	return each(options, operands, "DELETE", "", NULL, err);
}

static int run_extend(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct verb_options *o = options;

	return each(o, operands, "POST", ":extend",
		json_pack("{sI}", "seconds", (json_int_t)((o->by_ms + 999) / 1000)), err);
}

#define FIELD(name) offsetof(struct verb_options, name)

static const struct cli_option get_options[] = {
	CLI_OPTION("wait-for", 0, "STATE", "wait up to a minute for running, paused or stopped",
		"--wait-for stopped", cli_text, FIELD(wait_for)),
	REMOTE_OPTIONS(struct verb_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_sandbox_get = {
	.name = "sandbox get",
	.summary = "Show one sandbox of a server",
	.operands = "BOX",
	.examples = "sealmark sandbox get grader\nsealmark sandbox get grader --json\n",
	.options = get_options,
	.size = sizeof(struct verb_options),
	.least = 1,
	.most = 1,
	.run = run_get,
};

static const struct cli_option plain_options[] = {
	REMOTE_OPTIONS(struct verb_options),
	CLI_OPTIONS_END,
};

static const struct cli_option wake_options[] = {
	CLI_OPTION("wait", 0, "TIME", "wait so long for room (default: not at all)", "--wait 10m",
		cli_duration_ms, FIELD(wait_ms), .most = 86400000),
	REMOTE_OPTIONS(struct verb_options),
	CLI_OPTIONS_END,
};

static const struct cli_option rm_options[] = {
	CLI_OPTION("force", 'f', NULL, "one that is not there is no failure", "--force", cli_flag,
		FIELD(missing_ok)),
	REMOTE_OPTIONS(struct verb_options),
	CLI_OPTIONS_END,
};

static const struct verb_options extend_defaults = {.by_ms = 1800000};
static const struct cli_option extend_options[] = {
	CLI_OPTION("by", 0, "TIME", "lengthen it by so much (default 30m)", "--by 1h",
		cli_duration_ms, FIELD(by_ms), .least = 1000, .most = 86400000),
	REMOTE_OPTIONS(struct verb_options),
	CLI_OPTIONS_END,
};

#define VERB(word, what, options_, ...)                                                            \
	const struct cli_command cli_sandbox_##word = {.name = "sandbox " #word,                   \
		.summary = what,                                                                   \
		.operands = "BOX...",                                                              \
		.options = options_,                                                               \
		.size = sizeof(struct verb_options),                                               \
		.least = 1,                                                                        \
		.most = UINT_MAX,                                                                  \
		.run = run_##word,                                                                 \
		__VA_ARGS__}

VERB(stop, "Stop sandboxes; their records stay", plain_options,
	.examples = "sealmark sandbox stop grader\n");
VERB(pause, "Pause sandboxes", plain_options, .examples = "sealmark sandbox pause grader\n");
VERB(wake, "Let paused sandboxes go on", wake_options,
	.examples = "sealmark sandbox wake grader --wait 5m\n");
VERB(rm, "Stop sandboxes and forget them", rm_options, .examples = "sealmark sandbox rm grader\n");
VERB(extend, "Lengthen the leases of sandboxes", extend_options, .defaults = &extend_defaults,
	.examples = "sealmark sandbox extend grader --by 1h\n");
