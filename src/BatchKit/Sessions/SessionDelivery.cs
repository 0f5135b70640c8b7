using BatchKit.Transports;

namespace BatchKit.Sessions;

/// <summary>One send to the sessions: numbers and keeps its messages, applies its control messages, and forwards.</summary>
internal sealed class SessionDelivery(SessionTransport transport, SessionTable table, TotalHistoryLimit limit)
{
    // More members take longer than their writer should wait.
    private const int MaxInlineMembers = 64;

    // A forward that blocks holds back what those before it got for no longer.
    private static readonly TimeSpan LongestHold = TimeSpan.FromSeconds(1);

    // In the order in which they got output; one that got some twice is forwarded by its first place.
    private readonly List<Session> _reached = [];
    private BatchOutcome[]? _outcomes;

    public ValueTask RunAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        foreach (var batch in batches.Span)
        {
            if (!batch.Handle.IsConnection && table.MembersOf(batch.Handle.Name!).Length > MaxInlineMembers)
                return new ValueTask(RunOnPoolAsync(batches, cancellationToken));
        }

        Append(batches.Span);
        Forward(longestHold: null);
        ThrowIfRefused();
        return default;
    }

    private async Task RunOnPoolAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        Append(batches.Span);

        // The histories have the messages: a forward that blocks must not let them be sent, and numbered, again.
        var forwarding = Task.Run(() => Forward(LongestHold), CancellationToken.None);
        await forwarding.WaitAsync(cancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        ThrowIfRefused();
    }

    private void Append(ReadOnlySpan<MessageBatch> batches)
    {
        for (var index = 0; index < batches.Length; index++)
        {
            if (!batches[index].Handle.IsConnection)
                AppendToGroup(batches[index]);
            else if (!table.TryGet(batches[index].Handle, out var session) || !TryAppend(batches[index], session))
                Refuse(batches.Length, index);
        }
    }

    private void Forward(TimeSpan? longestHold)
    {
        // What several connections get leaves together.
        using (_reached.Count <= 1 ? default : BeginScope(longestHold))
        {
            foreach (var session in _reached)
            {
                transport.Forward(session);
                session.Trim();
            }
        }

        limit.Apply();
    }

    private void ThrowIfRefused()
    {
        if (_outcomes is not null)
            throw new BatchSendException([.. _outcomes], "A session has ended.") { DestinationsAreGone = true };
    }

    // A buffer that has stopped still sends what it has to the histories.
    private BufferingScope BeginScope(TimeSpan? longestHold)
    {
        try
        {
            return transport.Output.BeginBufferingScope(longestHold);
        }
        catch (ObjectDisposedException)
        {
            return default;
        }
    }

    private void AppendToGroup(MessageBatch batch)
    {
        var members = table.MembersOf(batch.Handle.Name!);
        if (members.Length == 0)
            return;
        var latest = 0;
        for (var index = 0; index < batch.Count; index++)
        {
            var header = batch[index].Header;
            if (header?.Kind == MessageKind.Control)
                continue;
            var message = Copy(batch, index, ref latest);
            foreach (var member in members)
            {
                if (!IsExcluded(header, member))
                    member.Append(message);
            }
        }

        _reached.AddRange(members);
    }

    private static bool IsExcluded(MessageHeader? header, Session session) =>
        header is { ExcludedConnections: { IsDefaultOrEmpty: false } excluded } && session.IsAmong(excluded.AsSpan());

    /// <returns>False when the session has ended.</returns>
    private bool TryAppend(MessageBatch batch, Session session)
    {
        var latest = 0;
        for (var index = 0; index < batch.Count; index++)
        {
            var isControl = batch[index].Kind == MessageKind.Control;
            if (isControl ? !ApplyControl(batch[index].Payload.Span, session) : IsExcluded(batch[index].Header, session) || session.Append(Copy(batch, index, ref latest)))
                continue;
            if (index == 0 && !isControl)
                return false;
            session.Discard(CountMessages(batch, index));
            break;
        }

        _reached.Add(session);
        return true;
    }

    private static int CountMessages(MessageBatch batch, int first)
    {
        var messages = 0;
        for (var index = first; index < batch.Count; index++)
            messages += batch[index].Kind == MessageKind.Control ? 0 : 1;
        return messages;
    }

    /// <returns>True when nothing behind it is delivered.</returns>
    private bool ApplyControl(ReadOnlySpan<byte> payload, Session session)
    {
        if (!ControlMessage.TryRead(payload, out var control))
            return false;
        if (control.Operation == ControlOperation.JoinGroup)
            table.Join(session, control.Group);
        else if (control.Operation == ControlOperation.LeaveGroup)
            table.Leave(session, control.Group);
        else if (session.BeginClosing())
            transport.End(session);
        return control.Operation == ControlOperation.Close;
    }

    // The latest values are in the order of the messages, so that each is looked at once.
    private SessionMessage Copy(MessageBatch batch, int index, ref int latest)
    {
        var message = batch[index];
        var values = batch.LatestMessages;
        while (latest < values.Length && values[latest].Index < index)
            latest++;
        var key = latest < values.Length && values[latest].Index == index ? (batch.Handle, values[latest].Key) : default((OutputHandle, long)?);
        return new SessionMessage(message.Payload.ToArray(), message.Header?.WithoutExclusions(), key, transport.DeadlineAfter(batch.TimeLeftOf(index)));
    }

    private void Refuse(int count, int index)
    {
        if (_outcomes is null)
            Array.Fill(_outcomes = new BatchOutcome[count], BatchOutcome.Acknowledged);
        _outcomes[index] = BatchOutcome.Refused;
    }
}
