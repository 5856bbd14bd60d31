#!/bin/bash
# needs ferroband-kernel:netns
# The netns tests of ferroband-kernel on this kernel. One needs a kernel without IPoIB and is skipped; those about
# adapters run only here.
set -e
ferroband-kernel-netns --test-threads 2 --skip ipoib_child_without_kernel_module
ferroband-kernel-netns adapters:: --ignored --test-threads 1
