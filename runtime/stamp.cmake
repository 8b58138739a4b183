# SPDX-License-Identifier: Apache-2.0
# Writes a header with the name of this build: a digest of the headers that libreshard and its plugins share, the version,
# the build type and the compiler. In: OUT, FILES (with | between them), BUILD.
string(REPLACE "|" ";" FILES "${FILES}")
set(digests "${BUILD}")
foreach(file IN LISTS FILES)
  file(SHA256 "${file}" digest)
  string(APPEND digests " ${digest}")
endforeach()
string(SHA256 stamp "${digests}")
string(SUBSTRING "${stamp}" 0 32 stamp)
file(WRITE "${OUT}" "/* SPDX-License-Identifier: Apache-2.0 */\n#ifndef RSR_STAMP_H\n#define RSR_STAMP_H\n#define RSR_STAMP \"${stamp}\"\n#endif\n")
