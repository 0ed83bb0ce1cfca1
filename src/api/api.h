/* SPDX-License-Identifier: Apache-2.0 - the platform's HTTP server, for `sealmark serve`. */
#ifndef SEALMARK_API_API_H
#define SEALMARK_API_API_H

#include "base/buffer.h"
#include "base/error.h"
#include "store/platform.h"

#include <jansson.h>
#include <stdint.h>

/*
 * The server keeps no state of sandboxes in memory: what it is told goes into the store, and what
 * is true is asked of the monitors. Killed and started again on the same store and home, it goes
 * on where it was.
 */
struct api_options {
	const char *home;  /* NULL: path_home() */
	const char *store; /* path of the SQLite store */
	/* HOST:PORT (port 0: any free one), [V6]:PORT or unix:PATH; NULL: 127.0.0.1:8080 */
	const char *listen;
	const char *tls_cert;     /* path of the certificates, PEM; NULL: plain HTTP */
	const char *tls_key;      /* and of the private key */
	const char *engine;       /* of new sandboxes: "auto", "uml" or "fake" */
	const char *script;       /* engine fake: its script */
	const char *isolation;    /* refuse to start machines weaker than this; NULL: "process" */
	uint32_t sandboxes_most;  /* at once; 0: eight for each CPU */
	uint32_t memory_most_mib; /* of all sandboxes together; 0: three quarters of the host's */
	/* of all sandboxes and builds together; 0: as many as these may be */
	uint32_t vcpu_most;
	uint64_t reserved_most; /* CPUs set aside for sandboxes that have one each; 0: none */
	/* of the sandboxes of one key; 0: no ceiling of its own */
	uint32_t key_sandboxes_most, key_memory_most_mib, key_vcpu_most;
	struct meter_prices prices;
	/* addresses and ranges that sandboxes may reach though they are not public; rules that hold
	 * for every sandbox; both end with NULL, or are NULL */
	const char *const *egress_also_allow, *const *egress_deny;
	/* builds of images: at once (0: one), with those that wait (0: 16), memory of one's machine
	 * (0: 4 GiB), all images they made together (0: no ceiling) */
	uint32_t builds_most, builds_queued_most, build_memory_mib, images_most_mib;
	/* "https://sealmark.example.org": how people reach it; NULL: by its address */
	const char *public_url;
	/* machines that are kept ready, and their memory; 0: none, and a quarter of the memory */
	uint64_t spares_most, spares_memory_mib;
	uint32_t paused_most_s; /* a paused sandbox is stopped after that; 0: a day */
	uint32_t idle_s;        /* close connections that do nothing for so long; 0: 75 s */
	uint32_t rate; /* requests a second of one key; 0: 50, in bursts of four times that */
};

#define API_OPTIONS_INIT                                                                           \
	{                                                                                          \
		.prices = METER_PRICES_DEFAULT, .spares_most = 4                                   \
	}

/* Put what is chosen when nothing was said where nothing was said. */
void api_options_complete(struct api_options *options);

/* --- the operator's file, sealmark.yaml(5) --- */
struct api_config;

/*
 * Read it into options, which keep what the file does not say. Each thing that is wrong is a line
 * in `wrong` ("FILE:LINE:COLUMN: what is wrong, and what would be right"), and the call answers
 * -EINVAL. Texts of the options are valid until api_config_free(), for which NULL is fine.
 */
int api_config_load(const char *path, struct api_options *options, struct buffer *wrong,
	struct api_config **out, struct error *err);
void api_config_free(struct api_config *config);
/* What is in force, in the form of the file. */
int api_config_show(const struct api_options *options, struct buffer *out);

struct api_server;

/* Check options, store, images and certificates, then listen. What is wrong is said with the cure.
 * With `check` only the former is done, and *out stays NULL. */
int api_start(
	const struct api_options *options, bool check, struct api_server **out, struct error *err);
/* Where it listens: "http://127.0.0.1:8080", "unix:/run/sealmark.sock". */
const char *api_address(const struct api_server *server);
/* How people reach it: its publicUrl, else its address. */
const char *api_public_url(const struct api_server *server);
/* The store it uses; it stays the server's. */
struct store *api_store(struct api_server *server);
/* Refuse new requests, finish those under way, close. Sandboxes go on. NULL is fine. */
void api_stop(struct api_server *server);

/* --- what was used --- */

/* An array of {key, name, sandboxes, chargedMicros, cpuMs, ...}; NULL on failure. */
json_t *api_usage(struct store *store, const struct store_usage_filter *filter, struct error *err);
/* "sandbox", "day", "key" or "label"; -EINVAL */
int api_usage_group(const char *name, enum store_usage_group *out);
/* The rows as CSV with a header. */
int api_usage_csv(const json_t *rows, enum store_usage_group group, struct buffer *out);
/* "2026-11-29" or "2026-11-29T17:48:06Z", in UTC, in ms since 1970; -EINVAL */
int api_time_parse(const char *text, int64_t *ms);

/* --- keys: "rtcloud_<uuid>_<43 letters>" --- */
#define API_KEY_SIZE 96

/* A new key in the store, which keeps its hash only. Its text, shown once, is in `text`. */
int api_key_create(struct store *store, const char *name, const char *access, bool account,
	char *text, struct store_api_key *out, struct error *err);

/* The same without a store: fills in id and time of a key with its other fields, and its hash
 * (HASH_HEX_SIZE bytes). */
int api_key_make(struct store_api_key *key, char *text, char *hash, struct error *err);

/* --- the owner --- */
/* A one-time link, valid for a day, by which whoever opens it sets the owner's password; links
 * before it end. `base`: the server's address, without a final slash. */
int api_owner_link(
	struct store *store, const char *base, char *out, size_t size, struct error *err);

#endif
