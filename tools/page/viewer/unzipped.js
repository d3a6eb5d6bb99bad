// Bytes that a page holds as text.

export async function unzipped(text) {
  const zipped = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([zipped]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}
