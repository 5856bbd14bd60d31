// SPDX-License-Identifier: Apache-2.0
/*
 * set-pkey DEVICE INDEX KEY: writes one entry of the port's own P_Key table through its umad device, as any process
 * with access to that device can.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/mad.h>
#include <infiniband/umad.h>

enum { KEYS_PER_BLOCK = 32 };

int main(int argc, char **argv)
{
	int classes[] = { IB_SMI_CLASS, IB_SMI_DIRECT_CLASS };
	ib_portid_t self = { .drpath = { .cnt = 0, .drslid = 0xffff, .drdlid = 0xffff } };
	uint8_t block[IB_SMP_DATA_SIZE];
	struct ibmad_port *port;
	unsigned long index, key;

	if (argc != 4) {
		fprintf(stderr, "usage: set-pkey DEVICE INDEX KEY\n");
		return 2;
	}
	index = strtoul(argv[2], NULL, 0);
	key = strtoul(argv[3], NULL, 0);
	port = mad_rpc_open_port(argv[1], 1, classes, 2);
	if (!port) {
		perror(argv[1]);
		return 1;
	}
	memset(block, 0, sizeof(block));
	if (!smp_query_via(block, &self, IB_ATTR_PKEY_TBL, index / KEYS_PER_BLOCK, 0, port)) {
		fprintf(stderr, "%s: cannot read the P_Key table\n", argv[1]);
		return 1;
	}
	block[(index % KEYS_PER_BLOCK) * 2] = key >> 8;
	block[(index % KEYS_PER_BLOCK) * 2 + 1] = key;
	if (!smp_set_via(block, &self, IB_ATTR_PKEY_TBL, index / KEYS_PER_BLOCK, 0, port)) {
		fprintf(stderr, "%s: cannot write the P_Key table\n", argv[1]);
		return 1;
	}
	mad_rpc_close_port(port);
	return 0;
}
