using BatchKit.Testing;
using BatchKit.Tests.Support;

namespace BatchKit.Tests.Buffering;

/// <summary>A scope costs in proportion to what is written in it, however large it is.</summary>
[Collection(nameof(MeasuresMemory))]
public sealed class GrowthTests
{
    private const int MessageBytes = 100;
    private const int Kilobyte = 1024;

    private static readonly byte[] Payload = Some.RandomBytes(MessageBytes);

    public static TheoryData<int, int> Shapes => new()
    {
        { 64 * Kilobyte, 10_000 },
        { 64 * Kilobyte, 10 },
        { 16 * 1024 * Kilobyte, 1_000_000 },
        { 1024 * 1024 * Kilobyte, 1_000_000 },
    };

    [Theory]
    [MemberData(nameof(Shapes))]
    public void A_message_allocates_as_much_in_a_scope_of_16_MiB_as_in_one_of_1_KiB(int maxBatchBytes, int maxBatchMessages) =>
        AssertAllocatesAsMuch(maxBatchBytes, maxBatchMessages, [100 * Kilobyte, 2 * 1024 * Kilobyte, 16 * 1024 * Kilobyte]);

    [Theory]
    [MemberData(nameof(Shapes))]
    [Trait("Lane", "night: many handles or messages")]
    public void A_message_allocates_as_much_in_a_scope_of_256_MiB_as_in_one_of_1_KiB(int maxBatchBytes, int maxBatchMessages) =>
        AssertAllocatesAsMuch(maxBatchBytes, maxBatchMessages, [256 * 1024 * Kilobyte]);

    private static void AssertAllocatesAsMuch(int maxBatchBytes, int maxBatchMessages, int[] scopes)
    {
        var options = new OutputBufferOptions { MaxBatchBytes = maxBatchBytes, MaxBatchMessages = maxBatchMessages, MaxSendBytes = 1 << 30, MaxBufferedBytes = 1L << 31 };
        var small = BytesPerMessage(options, scopeBytes: Kilobyte);

        foreach (var scopeBytes in scopes)
        {
            var bytes = BytesPerMessage(options, scopeBytes);
            Assert.True(bytes <= 3 * small, $"{bytes} bytes a message in a scope of {scopeBytes} bytes, {small} in one of 1 KiB.");
        }
    }

    // A new buffer, so that its handle and its first batch count too.
    private static double BytesPerMessage(OutputBufferOptions options, int scopeBytes)
    {
        var transport = new CountingTransport();
        var buffer = new OutputBuffer(transport, options, timeProvider: new ManualTimeProvider());
        var handle = Some.Connection();
        var messages = scopeBytes / MessageBytes;
        var before = GC.GetAllocatedBytesForCurrentThread();

        using (buffer.BeginBufferingScope(handle))
        {
            for (var message = 0; message < messages; message++)
                buffer.Write(handle, Payload);
        }

        var allocated = GC.GetAllocatedBytesForCurrentThread() - before;
        buffer.DisposeAsync().AsTask().GetAwaiter().GetResult();
        Assert.Equal(messages, transport.Messages);
        return (double)allocated / messages;
    }
}
