using System.Diagnostics;
using System.Globalization;
using System.Text;
using BatchKit.Chaos.Histories;
using BatchKit.Postgres;
using BatchKit.Transports;

namespace BatchKit.Chaos.Nodes;

/// <summary>The last hop, and a queue's handler: records what arrives before it is acknowledged.</summary>
internal sealed class ArrivalRecorder(HistoryWriter history) : IBatchTransport, IMessageHandler<QueueMessage>
{
    // Behind the message's name comes filling, so that messages differ in size.
    private const byte EndOfName = (byte)'|';

    // So that faults meet tasks that are being handled.
    private static readonly TimeSpan HandlingTime = TimeSpan.FromMilliseconds(20);

    public bool SendsWithoutBlocking => true;

    /// <summary>A message's bytes.</summary>
    public static byte[] Encode(MessageId message, int filling)
    {
        var name = Encoding.UTF8.GetBytes($"{message}|");
        var payload = new byte[name.Length + filling];
        name.CopyTo(payload, 0);
        payload.AsSpan(name.Length).Fill((byte)'.');
        return payload;
    }

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var now = Stopwatch.GetTimestamp();
        var arrived = new List<HistoryEvent>();
        foreach (var batch in batches.Span)
        {
            foreach (var message in batch)
                arrived.Add(new Arrived(now, Decode(message.Payload.Span), Row: 0));
        }

        history.Write(arrived);
        return ValueTask.CompletedTask;
    }

    public async ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        var now = Stopwatch.GetTimestamp();
        history.Write([.. batch.Select(message => new Arrived(now, Decode(message.Payload.Span), message.Id))]);
        await Task.Delay(HandlingTime, CancellationToken.None);
    }

    private static MessageId Decode(ReadOnlySpan<byte> payload)
    {
        var parts = Encoding.UTF8.GetString(payload[..payload.IndexOf(EndOfName)]).Split(' ');
        return new MessageId(parts[0], int.Parse(parts[1], CultureInfo.InvariantCulture), long.Parse(parts[2], CultureInfo.InvariantCulture));
    }
}
