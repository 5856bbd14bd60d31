#!/bin/bash
# needs ferroband-kernel:netns
# The product's netlink code on this kernel, with the tests it has of its own; one is about kernels without IPoIB, and
# those about adapters run nowhere else.
set -e
ferroband-kernel-netns --test-threads 2 --skip a_child_without_the_module
ferroband-kernel-netns adapters:: --ignored --test-threads 1
