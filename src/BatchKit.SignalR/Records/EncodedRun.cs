using System.Buffers;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Protocol;

namespace BatchKit.SignalR.Records;

/// <summary>Consecutive messages as one protocol encodes them, one after another.</summary>
internal sealed class EncodedRun(string protocol, byte[] bytes, int[] ends)
{
    // Created by the first client that needs it. Two clients may create it at once: both are right.
    private SerializedHubMessage? _joined;
    private SerializedHubMessage[]? _counted;

    public string Protocol { get; } = protocol;

    public int Length => bytes.Length;

    public int Count => ends.Length;

    /// <summary>All messages in one write. A client reads them as if they had come in a write each.</summary>
    public SerializedHubMessage Joined => _joined ??= new SerializedHubMessage([new SerializedMessage(Protocol, bytes)]);

    /// <summary>A write for each message, for connections that count them.</summary>
    public SerializedHubMessage[] Counted => _counted ??= [.. Enumerable.Range(0, ends.Length).Select(CreateCounted)];

    /// <summary>Joins several runs for one client.</summary>
    public static EncodedRun Join(IReadOnlyList<EncodedRun> runs)
    {
        if (runs.Count == 1)
            return runs[0];
        var joined = GC.AllocateUninitializedArray<byte>(runs.Sum(static run => run.Length));
        var ends = new int[runs.Sum(static run => run.Count)];
        var (length, count) = (0, 0);
        foreach (var run in runs)
        {
            run.CopyTo(joined.AsSpan(length), ends.AsSpan(count), length);
            length += run.Length;
            count += run.Count;
        }

        return new EncodedRun(runs[0].Protocol, joined, ends);
    }

    private void CopyTo(Span<byte> joined, Span<int> joinedEnds, int offset)
    {
        bytes.CopyTo(joined);
        for (var index = 0; index < ends.Length; index++)
            joinedEnds[index] = offset + ends[index];
    }

    // A connection with stateful reconnect counts a write as one message, and only if it knows it as an invocation: it keeps it then until the client has acknowledged it.
    // The message caches its bytes by the protocol's name, so the invocation itself is never encoded.
    private SerializedHubMessage CreateCounted(int index)
    {
        var start = index == 0 ? 0 : ends[index - 1];
        var message = new SerializedHubMessage(new InvocationMessage("encoded", []));
        _ = message.GetSerializedMessage(new EncodedProtocol(Protocol, bytes.AsMemory(start..ends[index])));
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
