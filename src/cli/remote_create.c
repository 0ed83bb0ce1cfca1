/* SPDX-License-Identifier: Apache-2.0 - sealmark sandbox create, and what run does for it. */
#include "cli/remote.h"

#include "base/text.h"

#include <stddef.h>
#include <string.h>

#define START_SECONDS 60u

struct create_options {
	struct remote_options remote;
	struct remote_create create;
};

static json_t *labels_and_env(json_t *body, const struct remote_create *o, struct error *err)
{
	json_t *labels = remote_pairs(&o->labels, "--label", err), *env;

	if (!labels)
		return NULL;
	env = remote_pairs(&o->env, "--env", err);
	if (!env) {
		json_decref(labels);
		return NULL;
	}
	if (json_object_size(labels))
		json_object_set(body, "labels", labels);
	if (json_object_size(env))
		json_object_set(body, "env", env);
	json_decref(labels);
	json_decref(env);
	return body;
}

static json_t *texts_json(const struct cli_texts *texts)
{
	json_t *list = json_array();

	for (size_t i = 0; i < texts->count; i++)
		json_array_append_new(list, json_string(texts->items[i]));
	return list;
}

static void add_network(json_t *body, const struct remote_create *o)
{
	json_t *network = json_object();

	if (o->internet || o->no_internet)
		json_object_set_new(network, "internet", json_boolean(o->internet));
	if (o->allow.count)
		json_object_set_new(network, "allow", texts_json(&o->allow));
	if (o->deny.count)
		json_object_set_new(network, "deny", texts_json(&o->deny));
	if (json_object_size(network))
		json_object_set(body, "network", network);
	json_decref(network);
}

static void set_text(json_t *body, const char *name, const char *text)
{
	if (text)
		json_object_set_new(body, name, json_string(text));
}

static void set_number(json_t *body, const char *name, int64_t value, bool given)
{
	if (given)
		json_object_set_new(body, name, json_integer(value));
}

/* Only what was given: the rest is the server's to say. */
static json_t *body_of(const struct remote_create *o, struct error *err)
{
	json_t *body = json_object();

	set_text(body, "name", o->name);
	set_text(body, "image", o->image);
	set_text(body, "onLeaseEnd", o->on_lease_end);
	set_text(body, "user", o->user);
	set_number(body, "vcpu", o->vcpu, o->vcpu);
	set_number(body, "memoryMiB", o->memory_mib, o->memory_mib);
	set_number(body, "diskMiB", o->disk_mib, o->disk_mib);
	set_number(body, "timeoutSeconds", (o->lease_ms + 999) / 1000, o->lease_ms);
	set_number(body, "idlePauseSeconds", o->idle_pause, o->has_idle);
	set_number(body, "maxCostMicros", o->max_cost, o->max_cost > 0);
	set_number(body, "maxTotalCostMicros", o->max_total, o->max_total > 0);
	if (o->persistent)
		json_object_set_new(body, "persistent", json_true());
	if (o->reuse)
		json_object_set_new(body, "getOrCreate", json_true());
	add_network(body, o);
	if (labels_and_env(body, o, err))
		return body;
	json_decref(body);
	return NULL;
}

int remote_wait_running(struct remote *r, json_t **sandbox, struct error *err)
{
	struct buffer path = {0};
	int status = CLI_OK;

	buffer_add_text(&path, "/v1/sandboxes/");
	remote_segment(&path, json_text(*sandbox, "id"));
	remote_query(&path, "waitFor", "running");
	remote_query(&path, "timeoutSeconds", "60");
	for (unsigned tries = 0; !status; tries++) {
		const char *state = json_text(*sandbox, "state");
		json_t *now = NULL;

		if (strcmp(state, "starting") != 0 && strcmp(state, "resuming") != 0)
			break;
		if (tries == 5) {
			status = cli_ours(err, "the sandbox %.64s does not come to run",
				json_text(*sandbox, "id"));
			break;
		}
		status = remote_call(r,
			&(struct remote_call){.method = "GET",
				.path = buffer_text(&path),
				.prefer = START_SECONDS},
			&now, err);
		if (!status) {
			json_decref(*sandbox);
			*sandbox = now;
		}
	}
	buffer_fini(&path);
	if (!status && (strcmp(json_text(*sandbox, "state"), "stopped") == 0 ||
			       strcmp(json_text(*sandbox, "state"), "stopping") == 0))
		status = cli_ours(err, "the sandbox did not start: %.80s %.300s",
			json_text(*sandbox, "stopReason"), json_text(*sandbox, "stopDetail"));
	return status;
}

int remote_create_sandbox(
	struct remote *r, const struct remote_create *o, json_t **out, struct error *err)
{
	json_t *body = body_of(o, err);
	int status;

	*out = NULL;
	if (!body)
		return CLI_USAGE;
	status = remote_call(r,
		&(struct remote_call){.method = "POST",
			.path = "/v1/sandboxes",
			.body = body,
			.wait_ms = o->wait_ms,
			.again = o->again,
			.anyway = o->anyway,
			.about = "create"},
		out, err);
	if (!status && !*json_text(*out, "id"))
		status = cli_ours(err, "the server's answer has no id");
	if (!status && !o->detach)
		status = remote_wait_running(r, out, err);
	return status;
}

static int run_create(
	const void *options, const char *const *operands, size_t count, struct error *err)
{
	const struct create_options *o = options;
	struct remote *r;
	json_t *sandbox = NULL;
	int status;

	if (o->create.internet && o->create.no_internet)
		return cli_usage(err, "--internet and --no-internet exclude each other");
	if (o->create.reuse && !o->create.name)
		return cli_usage(err, "--reuse needs a --name");
	status = remote_open(&o->remote, &r, err);
	if (!status)
		status = remote_create_sandbox(r, &o->create, &sandbox, err);
	/* also when it did not come to run: whoever made it must be able to remove it */
	if (sandbox && o->remote.json)
		remote_print_json(json_incref(sandbox), err);
	else if (sandbox && *json_text(sandbox, "id")) {
		remote_put(stdout, json_text(sandbox, "id"));
		putchar('\n');
	}
	json_decref(sandbox);
	remote_free(r);
	return status;
}

static int parse_idle(
	const struct cli_option *option, const char *text, void *field, struct error *err)
{
	struct remote_create *o = field;
	int64_t ms = 0;
	int r = cli_duration_ms(option, text, &ms, err);

	o->idle_pause = (uint32_t)(ms / 1000);
	o->has_idle = true;
	return r;
}

#define FIELD(name) offsetof(struct create_options, create.name)
static const struct cli_option options[] = {
	CLI_OPTION("name", 'n', "NAME", "call it so, as the only one", "--name grader", cli_text,
		FIELD(name)),
	CLI_OPTION("label", 'l', "KEY=VALUE", "label it; may be given several times",
		"--label course=cs101", cli_texts, FIELD(labels)),
	CLI_OPTION("image", 'i', "NAME", "image of the machine (default: default)",
		"--image default@1", cli_text, FIELD(image)),
	CLI_OPTION("memory", 'm', "SIZE", "memory (default: the server's)", "--memory 2G", cli_mib,
		FIELD(memory_mib), .least = 128, .most = 65536),
	CLI_OPTION("vcpu", 'c', "N", "CPUs (default: the server's)", "--vcpu 1", cli_u32,
		FIELD(vcpu), .least = 1, .most = 16),
	CLI_OPTION("disk", 'd', "SIZE", "room for files (default: the server's)", "--disk 1G",
		cli_mib, FIELD(disk_mib), .least = 16, .most = 65536),
	CLI_OPTION("timeout", 't', "TIME", "lease: it ends after this time (default 30m)",
		"--timeout 1h", cli_duration_ms, FIELD(lease_ms), .least = 60000, .most = 86400000),
	CLI_OPTION("on-lease-end", 0, "ACTION", "then stop or pause it (default: the server's)",
		"--on-lease-end stop", cli_text, FIELD(on_lease_end)),
	CLI_OPTION("persistent", 0, NULL, "let its lease renew itself", "--persistent", cli_flag,
		FIELD(persistent)),
	CLI_OPTION("idle-pause", 0, "TIME", "pause it when idle for so long; 0: never",
		"--idle-pause 5m", parse_idle, offsetof(struct create_options, create),
		.most = 86400000),
	CLI_OPTION("env", 'e', "NAME=VALUE", "variable of every command; several times",
		"--env LANG=C", cli_texts, FIELD(env)),
	CLI_OPTION("user", 'u', "USER", "whom commands run as: sandbox (the default) or root",
		"--user root", cli_text, FIELD(user)),
	CLI_OPTION("internet", 0, NULL, "let it reach the internet", "--internet", cli_flag,
		FIELD(internet)),
	CLI_OPTION("no-internet", 0, NULL, "let it reach nothing", "--no-internet", cli_flag,
		FIELD(no_internet)),
	CLI_OPTION("allow", 0, "HOST", "let it reach only this; may be given several times",
		"--allow pypi.org", cli_texts, FIELD(allow)),
	CLI_OPTION("deny", 0, "HOST", "but not this; may be given several times",
		"--deny '*.example'", cli_texts, FIELD(deny)),
	CLI_OPTION("max-cost", 0, "DOLLARS", "refuse it if the first lease could cost more",
		"--max-cost 0.10", remote_money, FIELD(max_cost)),
	CLI_OPTION("max-total-cost", 0, "DOLLARS", "stop it before it costs more",
		"--max-total-cost 5", remote_money, FIELD(max_total)),
	CLI_OPTION("reuse", 0, NULL, "take the one of this --name if there is one", "--reuse",
		cli_flag, FIELD(reuse)),
	CLI_OPTION("detach", 0, NULL, "do not wait until it runs", "--detach", cli_flag,
		FIELD(detach)),
	CLI_OPTION("wait", 0, "TIME", "wait so long for room (default: not at all)", "--wait 10m",
		cli_duration_ms, FIELD(wait_ms), .most = 86400000),
	REMOTE_OPTIONS(struct create_options),
	CLI_OPTIONS_END,
};

const struct cli_command cli_sandbox_create = {
	.name = "sandbox create",
	.summary = "Create a sandbox on a server and print its id",
	.text = "It runs when the command ends, and goes on running until its lease ends or\n"
		"`sealmark sandbox stop`.",
	.examples = "box=$(sealmark sandbox create --memory 2G --timeout 1h)\n"
		    "sealmark sandbox create --name hw3 --label course=cs101 --no-internet\n",
	.options = options,
	.size = sizeof(struct create_options),
	.run = run_create,
};
