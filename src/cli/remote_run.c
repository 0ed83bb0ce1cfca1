/* SPDX-License-Identifier: Apache-2.0 - sealmark sandbox run on a server: create, copy, exec,
 * delete. */
#include "cli/remote.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/text.h"

#include <limits.h>
#include <string.h>

#define LEASE_MS       INT64_C(3600000)
#define LEASE_EXTRA_MS INT64_C(300000)
#define LEASE_MOST_MS  INT64_C(86400000)

static int copy_files(
	struct remote *r, const struct remote_run *run, const char *id, struct error *err)
{
	int status = CLI_OK;

	for (size_t i = 0; !status && i < run->files.count; i++) {
		const char *pair = run->files.items[i], *colon = strrchr(pair, ':');
		const char *to = colon ? colon + 1 : "";
		struct buffer guest = {0};
		char from[PATH_MAX];

		if (!colon || colon == pair || !*to ||
			text_format(from, sizeof(from), "%.*s", (int)(colon - pair), pair))
			return cli_usage(err,
				"--file: \"%.200s\": must be SOURCE:TARGET, as --file "
				"hw.py:/workspace/hw.py",
				pair);
		if (*to != '/' && run->exec.cwd)
			buffer_printf(&guest, "%s/%s", run->exec.cwd, to);
		else
			remote_guest_path(to, &guest);
		status = remote_copy_in(r, id, from, buffer_text(&guest), false, NULL, err);
		buffer_fini(&guest);
	}
	return status;
}

/* Gone at the end, whatever happened; a lease ends it if this cannot. */
static void remove_sandbox(struct remote *r, const char *id)
{
	struct error err = {0};
	char path[REMOTE_ID_SIZE + 32];

	text_format(path, sizeof(path), "/v1/sandboxes/%s", id);
	if (remote_call(r, &(struct remote_call){.method = "DELETE", .path = path, .anyway = true},
		    NULL, &err))
		log_warning("the sandbox %s could not be removed; it ends with its lease: %s", id,
			error_message(&err));
}

/* An interrupted create may have made one: the same request again tells its id. */
static void find_made(struct remote *r, const struct remote_create *create, json_t **sandbox)
{
	struct remote_create again = *create;
	struct error ignored;

	again.anyway = true;
	again.wait_ms = 0;
	remote_create_sandbox(r, &again, sandbox, &ignored);
}

static int run_in(struct remote *r, const struct remote_run *run, struct error *err)
{
	struct remote_create create = run->create;
	struct remote_exec exec = run->exec;
	char again[ID_SIZE], id[REMOTE_ID_SIZE];
	json_t *sandbox = NULL;
	int status;

	id_uuid(again);
	create.again = again;
	create.detach = true;
	create.on_lease_end = "stop";
	create.lease_ms = exec.timeout_ms + LEASE_EXTRA_MS;
	if (!exec.timeout_ms || create.lease_ms < LEASE_MS)
		create.lease_ms = LEASE_MS;
	if (create.lease_ms > LEASE_MOST_MS)
		create.lease_ms = LEASE_MOST_MS;
	status = remote_create_sandbox(r, &create, &sandbox, err);
	if (status >= 128 && !sandbox)
		find_made(r, &create, &sandbox);
	if (!sandbox)
		return status;
	text_copy(id, sizeof(id), json_text(sandbox, "id"));
	if (!status)
		status = remote_wait_running(r, &sandbox, err);
	json_decref(sandbox);
	exec.id = id;
	if (!status)
		status = copy_files(r, run, id, err);
	if (!status)
		status = run->json ? remote_exec_json(r, &exec, err) : remote_exec(r, &exec, err);
	remove_sandbox(r, id);
	return status;
}

int remote_run(struct remote_settings *settings, const struct remote_run *run, struct error *err)
{
	const struct remote_login ask = {.purpose = "sealmark sandbox run"};
	struct remote *r;
	int status = CLI_OK;

	if (!settings->key[0] && run->trial)
		status = remote_login(settings, &ask, err);
	else if (!settings->key[0])
		status = cli_usage(err,
			"no key for %.200s: log in (sealmark login), add --trial, or run on this "
			"host (--local)",
			settings->url);
	if (status)
		return status;
	status = remote_open_with(settings, &r, err);
	if (status)
		return status;
	log_info("running on %s", settings->url);
	status = run_in(r, run, err);
	remote_free(r);
	return status;
}
