package job

import (
	"crypto/sha1"
	"encoding/hex"
)

// hash is the last part of a Workload's name: five hexadecimal digits of SHA-1.
func hash(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])[:5]
}
