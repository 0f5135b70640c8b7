using System.Collections.Immutable;
using System.Text;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Tests.Transport.Modelled;

/// <summary>One random sequence of sends against a transport and what it must do, written down plainly.</summary>
internal sealed class TransportRun : IAsyncDisposable
{
    private const int LargeBytes = 30_000;

    private readonly BroadcastTransport _transport = new();
    private readonly ModelClient[] _clients;
    private int _lastMessage;
    private int _unknown;

    private TransportRun() => _clients =
    [
        new(new FakeClient(_transport)),
        new(new FakeClient(_transport, ClientProtocol.WebSocket, WireFormat.WebSocketText)),
        new(new FakeClient(_transport, ClientProtocol.Telnet, WireFormat.Telnet(TelnetCharset.Utf8, PromptEnding.GoAhead, takesGmcp: false))),
        new(new FakeClient(_transport)),
        new(new FakeClient(_transport, ClientProtocol.WebSocket, WireFormat.WebSocketText)),
        new(new FakeClient(_transport)),
    ];

    public static async Task CheckAsync(SendStep[] steps)
    {
        await using var run = new TransportRun();
        foreach (var step in steps)
        {
            if (step.Batches.Length == 0)
                run.Leave(run._clients[step.Gone]);
            else
                await run.SendAsync(step);
        }

        run.Compare();
    }

    public ValueTask DisposeAsync() => _transport.DisposeAsync();

    private void Leave(ModelClient client)
    {
        client.Client.Leave();
        client.Groups.Clear();
        client.IsGone = true;
    }

    private async Task SendAsync(SendStep step)
    {
        var closedInThisSend = new HashSet<ModelClient>();
        var refused = new List<int>();
        var batches = new MessageBatch[step.Batches.Length];
        for (var index = 0; index < batches.Length; index++)
        {
            batches[index] = Make(step.Batches[index]);
            if (!TryFollow(step.Batches[index], batches[index], closedInThisSend))
                refused.Add(index);
        }

        foreach (var client in closedInThisSend)
            client.Close();
        await SendAsync(batches, refused);
    }

    private async Task SendAsync(MessageBatch[] batches, List<int> refused)
    {
        if (refused.Count == 0)
        {
            await _transport.SendAsync(batches);
            return;
        }

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => _transport.SendAsync(batches));
        var expected = batches.Select((_, index) => refused.Contains(index) ? BatchOutcome.Refused : BatchOutcome.Acknowledged).ToImmutableArray();
        Assert.Equal(expected, exception.Outcomes);
    }

    private MessageBatch Make(BatchStep step)
    {
        var handle = step.Target < _clients.Length ? _clients[step.Target].Client.Handle : OutputHandle.Named($"group {step.Target - _clients.Length}");
        return Deliveries.To(handle, Array.ConvertAll(step.Messages, Make));
    }

    private BatchMessage Make(MessageStep step) => step.Kind switch
    {
        MessageStepKind.Large => Some.Message($"{++_lastMessage}".PadRight(LargeBytes, '.')),
        MessageStepKind.Excluding => Deliveries.Excluding($"{++_lastMessage} ", Excluded(step.Excluded)),
        MessageStepKind.Gmcp => Some.Message($"{++_lastMessage}", TelnetMessages.Gmcp),
        MessageStepKind.Join => Deliveries.Control(ControlMessage.JoinGroup($"group {step.Group}")),
        MessageStepKind.Leave => Deliveries.Control(ControlMessage.LeaveGroup($"group {step.Group}")),
        MessageStepKind.Close => Deliveries.Control(ControlMessage.Close),
        MessageStepKind.Unknown => new BatchMessage(new byte[] { 77 }, MessageHeader.Control),
        _ => Some.Message($"{++_lastMessage} "),
    };

    // An odd set also names enough strangers to be looked up in a table.
    private OutputHandle[] Excluded(int bits)
    {
        var strangers = Enumerable.Range(0, bits % 2 * 10).Select(_ => Some.Connection(node: 9));
        return [.. _clients.Where((_, place) => IsIn(bits, place)).Select(client => client.Client.Handle), .. strangers];
    }

    /// <returns>False when the batch must be refused.</returns>
    private bool TryFollow(BatchStep step, MessageBatch batch, HashSet<ModelClient> closedInThisSend)
    {
        if (step.Target >= _clients.Length)
        {
            var members = _clients.Where(client => client.Groups.Contains(step.Target - _clients.Length)).ToArray();
            foreach (var member in members)
                Get(member, step, batch);
            return true;
        }

        var client = _clients[step.Target];
        if (client.IsGone || closedInThisSend.Contains(client))
            return false;
        Get(client, step, batch);
        if (Obey(client, step, canJoin: !client.IsClosed))
            closedInThisSend.Add(client);
        return true;
    }

    /// <summary>Gives a client the messages before a close, and counts the others as dropped; a group's have none that counts.</summary>
    private void Get(ModelClient client, BatchStep step, MessageBatch batch)
    {
        var isGroup = step.Target >= _clients.Length;
        var isBehindClose = false;
        for (var index = 0; index < batch.Count; index++)
        {
            var message = step.Messages[index];
            isBehindClose |= message.Kind == MessageStepKind.Close && !isGroup;
            var isExcluded = message.Kind == MessageStepKind.Excluding && IsIn(message.Excluded, Array.IndexOf(_clients, client));
            if (message.Kind is MessageStepKind.Text or MessageStepKind.Large or MessageStepKind.Excluding && !isExcluded)
                client.Get(batch[index].Payload.ToArray(), isBehindClose);
        }
    }

    /// <returns>True when it is to be closed.</returns>
    private bool Obey(ModelClient client, BatchStep step, bool canJoin)
    {
        foreach (var message in step.Messages)
        {
            if (message.Kind == MessageStepKind.Join && canJoin)
                client.Groups.Add(message.Group);
            else if (message.Kind == MessageStepKind.Leave)
                client.Groups.Remove(message.Group);
            else if (message.Kind == MessageStepKind.Unknown)
                _unknown++;
            else if (message.Kind == MessageStepKind.Close)
            {
                client.Groups.Clear();
                return true;
            }
        }

        return false;
    }

    private void Compare()
    {
        for (var group = 0; group < SendSteps.Groups; group++)
        {
            var members = _clients.Where(client => client.Groups.Contains(group)).Select(client => client.Client.Connection).ToHashSet();
            Assert.Equal(members, _transport.GetMembers($"group {group}").ToHashSet());
        }

        foreach (var client in _clients)
            Assert.Equal(Encoding.Latin1.GetString([.. client.Written]), Encoding.Latin1.GetString(client.Client.Wire.Written));
        var counted = _transport.GetStatistics();
        counted.AssertAddsUp();
        Assert.Equal(
            (_clients.Sum(client => client.Sent), _clients.Sum(client => client.Dropped), 0L, _unknown),
            (counted.SentMessages, counted.DroppedClosedMessages, counted.PendingMessages, counted.UnknownControlMessages));
        Assert.Equal(_clients.SelectMany(client => client.Groups).Distinct().Count(), counted.Groups);
    }

    private static bool IsIn(int bits, int place) => (bits & (1 << place)) != 0;
}
