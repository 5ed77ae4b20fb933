// Java code that reads streams: host LIBJVM before|after, which says when Java begins to handle
// signals, seen from the first stream.
#include <dlfcn.h>
#include <jni.h>
#include <pthread.h>

#include "tests/capi/check.h"

enum { kBlockBytes = 16 << 10, kBlocks = 64 };

static int64_t fill(void* context, void* block, size_t bytes, uint64_t offset) {
  (void)context;
  memset(block, (int)(offset / bytes) + 1, bytes);
  return (int64_t)bytes;
}

static vtx_input* make_stream(void) {
  const vtx_stream_options options = {.block_bytes = kBlockBytes};
  vtx_input* input = NULL;
  CHECK(vtx_input_from_callback(fill, NULL, &options, &input) == 0);
  return input;
}

static void read_in_c(void) {
  vtx_input* const input = make_stream();
  const volatile char* const data = vtx_input_data(input);
  for (long i = 0; i < kBlocks; ++i) CHECK(data[i * kBlockBytes] == i + 1);
  vtx_input_close(input);
}

static JNIEnv* start_java(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  jint (*create)(JavaVM**, void**, void*);
  *(void**)&create = dlsym(library, "JNI_CreateJavaVM");
  CHECK(create != NULL);
  JavaVMOption options[] = {{.optionString = "-Xmx64m"}, {.optionString = "-Xss512k"}};
  JavaVMInitArgs arguments = {.version = JNI_VERSION_1_8, .nOptions = 2, .options = options};
  JavaVM* machine = NULL;
  JNIEnv* java = NULL;
  CHECK(create(&machine, (void**)&java, &arguments) == JNI_OK);
  return java;
}

// By Java's own code, often enough to be compiled.
static void read_in_java(JNIEnv* java) {
  vtx_input* const input = make_stream();
  const jobject buffer =
      (*java)->NewDirectByteBuffer(java, (void*)vtx_input_data(input), kBlocks * kBlockBytes);
  CHECK(buffer != NULL);
  const jclass type = (*java)->FindClass(java, "java/nio/ByteBuffer");
  const jmethodID get = (*java)->GetMethodID(java, type, "get", "(I)B");
  CHECK(get != NULL);
  for (jint i = 0; i < kBlocks * kBlockBytes; i += 64) {
    CHECK((*java)->CallByteMethod(java, buffer, get, i) == i / kBlockBytes + 1);
  }
  vtx_input_close(input);
}

static int threw(JNIEnv* java, const char* name) {
  const jthrowable thrown = (*java)->ExceptionOccurred(java);
  (*java)->ExceptionClear(java);
  return thrown != NULL && (*java)->IsInstanceOf(java, thrown, (*java)->FindClass(java, name));
}

// Exceptions that Java makes of SIGSEGV: at a null reference, and at the end of a thread's stack.
static void make_exceptions(JNIEnv* java) {
  const jclass strings = (*java)->FindClass(java, "java/lang/String");
  const jmethodID value_of =
      (*java)->GetStaticMethodID(java, strings, "valueOf", "([C)Ljava/lang/String;");
  (*java)->CallStaticObjectMethod(java, strings, value_of, NULL);
  CHECK(threw(java, "java/lang/NullPointerException"));
  const jclass lists = (*java)->FindClass(java, "java/util/ArrayList");
  const jobject list =
      (*java)->NewObject(java, lists, (*java)->GetMethodID(java, lists, "<init>", "()V"));
  (*java)->CallBooleanMethod(
      java, list, (*java)->GetMethodID(java, lists, "add", "(Ljava/lang/Object;)Z"), list);
  (*java)->CallIntMethod(java, list, (*java)->GetMethodID(java, lists, "hashCode", "()I"));
  CHECK(threw(java, "java/lang/StackOverflowError"));
}

struct arguments {
  const char* library;
  int java_first;
};

static void* run(void* pointer) {
  const struct arguments* const arguments = pointer;
  if (!arguments->java_first) read_in_c();
  JNIEnv* const java = start_java(arguments->library);
  if (arguments->java_first) read_in_c();
  for (int round = 0; round < 2; ++round) {
    for (int again = 0; again < 3; ++again) {
      read_in_c();
      read_in_java(java);
      make_exceptions(java);
    }
    // Java passes on what it does not know; the second round is without its help.
    CHECK(vtx_reclaim_faults() == 0);
  }
  return NULL;
}

int main(int count, char** strings) {
  CHECK(count == 3);
  struct arguments arguments = {strings[1], strcmp(strings[2], "before") == 0};
  // Not on the first thread, which Java takes for one of its launcher's.
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run, &arguments) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  puts("done");
  return 0;
}
