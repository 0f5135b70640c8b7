using System.Buffers;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Protocol;

namespace BatchKit.SignalR.Records;

/// <summary>Consecutive messages as one protocol encodes them, one after another.</summary>
/// <remarks>Clients share it. Each holds it until it has written it, as does the send until it has queued it for all; then its memory returns to the pool.</remarks>
internal sealed class EncodedRun(string protocol, byte[] bytes, int length, int[] ends, int count)
{
    // What is shorter costs less as garbage than as a trip to the pool.
    private const int MinPooledBytes = 4096;

    private int _holders = 1;

    // Created by the first client that needs it. Two clients may create it at once: both are right.
    private SerializedHubMessage? _joined;
    private SerializedHubMessage[]? _counted;

    public string Protocol { get; } = protocol;

    public int Length => length;

    public int Count => count;

    /// <summary>All messages in one write. A client reads them as if they had come in a write each.</summary>
    public SerializedHubMessage Joined => _joined ??= new SerializedHubMessage([new SerializedMessage(Protocol, bytes.AsMemory(0, length))]);

    /// <summary>A write for each message, for connections that count them, and that keep them for as long as they like.</summary>
    public SerializedHubMessage[] Counted => _counted ??= [.. Enumerable.Range(0, count).Select(CreateCounted)];

    private bool IsPooled => bytes.Length >= MinPooledBytes;

    public int BytesOf(int message) => ends[message] - StartOf(message);

    /// <summary>The messages from one on that fit in a write; at least one.</summary>
    public SerializedHubMessage GetPart(int maxBytes, ref int first, out int partBytes)
    {
        // Something that SignalR itself writes may come between two parts, so a part ends where a message does.
        var start = StartOf(first++);
        while (first < count && ends[first] - start <= maxBytes)
            first++;
        partBytes = ends[first - 1] - start;
        return new SerializedHubMessage([new SerializedMessage(Protocol, bytes.AsMemory(start, partBytes))]);
    }

    /// <summary>Memory for a run's bytes.</summary>
    public static byte[] Rent(int length) => length < MinPooledBytes ? GC.AllocateUninitializedArray<byte>(length) : ArrayPool<byte>.Shared.Rent(length);

    /// <summary>Joins several runs. Whoever joins them holds the result.</summary>
    public static EncodedRun Join(IReadOnlyList<EncodedRun> runs)
    {
        var joined = Rent(runs.Sum(static run => run.Length));
        var ends = new int[runs.Sum(static run => run.Count)];
        var (length, count) = (0, 0);
        foreach (var run in runs)
        {
            run.CopyTo(joined.AsSpan(length), ends.AsSpan(count), length);
            length += run.Length;
            count += run.Count;
        }

        return new EncodedRun(runs[0].Protocol, joined, length, ends, count);
    }

    /// <summary>Keeps the memory until <see cref="Release"/>.</summary>
    public EncodedRun Hold()
    {
        if (IsPooled)
            Interlocked.Increment(ref _holders);
        return this;
    }

    /// <summary>Ends one hold. The last returns the memory, unless a connection keeps messages of it.</summary>
    public void Release()
    {
        if (IsPooled && Interlocked.Decrement(ref _holders) == 0 && _counted is null)
            ArrayPool<byte>.Shared.Return(bytes);
    }

    private int StartOf(int message) => message == 0 ? 0 : ends[message - 1];

    private void CopyTo(Span<byte> joined, Span<int> joinedEnds, int offset)
    {
        bytes.AsSpan(0, length).CopyTo(joined);
        for (var index = 0; index < count; index++)
            joinedEnds[index] = offset + ends[index];
    }

    // A connection with stateful reconnect counts a write as one message, and only if it knows it as an invocation: it keeps it then until the client has acknowledged it.
    // The message caches its bytes by the protocol's name, so the invocation itself is never encoded.
    private SerializedHubMessage CreateCounted(int index)
    {
        var message = new SerializedHubMessage(new InvocationMessage("encoded", []));
        _ = message.GetSerializedMessage(new EncodedProtocol(Protocol, bytes.AsMemory(StartOf(index), BytesOf(index))));
        return message;
    }
}

/// <summary>Encodes each message as the same bytes.</summary>
internal sealed class EncodedProtocol(string name, ReadOnlyMemory<byte> bytes) : IHubProtocol
{
    public string Name => name;

    public int Version => 1;

    public TransferFormat TransferFormat => TransferFormat.Binary;

    public ReadOnlyMemory<byte> GetMessageBytes(HubMessage message) => bytes;

    public void WriteMessage(HubMessage message, IBufferWriter<byte> output) => output.Write(bytes.Span);

    public bool TryParseMessage(ref ReadOnlySequence<byte> input, IInvocationBinder binder, out HubMessage message) =>
        throw new NotSupportedException("Only written messages are encoded beforehand.");

    public bool IsVersionSupported(int version) => version == Version;
}
