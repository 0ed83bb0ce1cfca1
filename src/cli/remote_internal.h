/* SPDX-License-Identifier: Apache-2.0 - one request and its answer, below the calls. */
#ifndef SEALMARK_CLI_REMOTE_INTERNAL_H
#define SEALMARK_CLI_REMOTE_INTERNAL_H

#include "cli/remote.h"

#include <curl/curl.h>

struct remote {
	struct remote_settings settings;
	CURLM *multi;
	CURL *easy;
	int cancel_fd;
	int signal;    /* that came, or 0 */
	char code[64]; /* of the last error */
};

/* A request on its way, and what came back. */
struct exchange {
	const struct remote_call *call;
	char *body; /* JSON */
	const char *key;
	/* answer */
	CURL *easy; /* while it lasts */
	long status;
	char request_id[64];
	int64_t retry_ms; /* -1: nothing said */
	struct buffer answer;
	uint64_t length; /* bytes that were passed on */
	int refused;     /* what on_bytes answered, or -EFBIG */
	bool arrived;    /* the request may have reached the server */
};

/* 0: an answer is there; -EINTR: a signal came; -ECANCELED: on_bytes refused or too much came;
 * -EPROTO: no use trying again; else the connection failed. */
int remote_exchange(struct remote *r, struct exchange *x, struct error *err);

#endif
