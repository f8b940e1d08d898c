# Everything that depends on the LibTorch release stands here; scripts/bootstrap reads the first line too.
set(LIBZERO_TORCH_VERSION "2.11.0")
