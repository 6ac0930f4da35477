#!/bin/sh
# A real redis-server, which is also the Sentinel and the Cluster node of the tests.
. "$(dirname "$0")/common.sh"

have redis-server || apt redis-server
