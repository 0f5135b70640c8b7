namespace BatchKit.Tests.Schedules;

/// <summary>Writes at random, in every way there is, and enters in the ledger what the buffer answered.</summary>
internal sealed class RandomWriter(World world)
{
    // How much more an encoder may ask for than it uses.
    private const int MostExtraBytes = 20;

    private const int Keys = 3;

    private static readonly MessageKind[] Kinds = [MessageKind.Prompt, MessageKind.Control];

    private static readonly TimeSpan[] TimesToLive = [TimeSpan.FromTicks(1), Schedule.Tick / 2, 3 * Schedule.Tick, TimeSpan.FromHours(1)];

    private readonly Schedule _schedule = world.Schedule;

    /// <summary>Writes a loop through a writer, while others act.</summary>
    public void WriteLoop(int handle)
    {
        world.Book.BeginOpening(handle);
        OpenedScope scope;
        var lines = default(MessageWriter);
        try
        {
            lines = world.Buffer.BeginWriting(_schedule.Handles[handle]);
        }
        finally
        {
            scope = world.Book.EndOpening(handle);
        }

        var loop = new LedgerLoop();
        for (var count = _schedule.Pick(6); count > 0; count--)
        {
            if (!world.IsInsideSend && _schedule.Chance(40))
                world.Interlude();
            WriteTo(lines, handle, loop);
        }

        world.Journal.Add($"ends a loop for h{handle}");
        world.Book.BeginWrite(handle);
        world.Book.Close(scope);
        lines.Dispose();
        loop.IsOpen = false;
        foreach (var message in loop.Messages.Where(static message => message.IsAccepted == true))
            message.End = Math.Min(message.End, world.Ledger.Now);
        world.Book.QueueUnheld();
    }

    private void WriteTo(MessageWriter lines, int handle, LedgerLoop loop)
    {
        world.Book.BeginWrite(handle);
        var isPrompt = _schedule.Chance(15);
        var message = world.Ledger.Begin(handle, _schedule.Chance(3) ? 200 : _schedule.PickOne([4, 10, 30, 100]), isPrompt ? MessageKind.Prompt : MessageKind.Output, key: null, world.Book.Current);
        message.Loop = loop;
        loop.Messages.Add(message);
        message.MustFit = NeighbourRules.MustFit(world, message);
        var header = isPrompt ? MessageHeader.Prompt : null;
        var fault = _schedule.Chance(_schedule.EncoderFaultsPercent) ? _schedule.PickOne(Enum.GetValues<EncoderFault>()) : EncoderFault.None;
        var isEncoded = _schedule.Chance(30);
        message.MustFit &= fault == EncoderFault.None || !isEncoded;
        try
        {
            if (_schedule.Chance(50))
            {
                var isAccepted = isEncoded ? lines.TryWrite(message.Bytes + 20, (message, fault), EncodeInPlace, header) : lines.TryWrite(message.Payload(), header);
                if (!isAccepted && _schedule.Drops && !world.IsStopped)
                    world.Ledger.Refused++;
                Decide(message, isAccepted);
                return;
            }

            if (isEncoded)
                lines.Write(message.Bytes + 20, (message, fault), EncodeInPlace, header);
            else
                lines.Write(message.Payload(), header);
            Decide(message, !WasDropped(message));
        }
        catch (InvalidOperationException)
        {
            Decide(message, isAccepted: false);
        }
    }

    public void Write()
    {
        var handle = _schedule.NextHandle();
        var kind = _schedule.Chance(15) ? _schedule.PickOne(Kinds) : MessageKind.Output;
        world.Book.BeginWrite(handle);

        // Transports have keys of their own: which of two writes came first, one inside a send that the other began or before it, can't be told from outside.
        long? key = _schedule.Chance(_schedule.LatestPercent) ? _schedule.Pick(Keys) + (world.IsInsideSend ? Keys : 0) : null;
        var message = world.Ledger.Begin(handle, _schedule.Chance(3) ? 200 : _schedule.PickOne([4, 10, 30, 100]), kind, key, world.Book.Current);
        message.MustFit = NeighbourRules.MustFit(world, message);
        var header = HeaderOf(message);
        switch (_schedule.Pick(5))
        {
            case 0:
                Encode(message, header);
                break;
            case > 0 when key is { } latest:
                WriteLatest(message, latest, header);
                break;
            case 1:
                TryWrite(message, () => world.Buffer.TryWrite(_schedule.Handles[message.Handle], message.Payload(), header));
                break;
            case 2:
                Write(message, () => world.Buffer.Write(_schedule.Handles[message.Handle], message.Payload(), header));
                break;
            default:
                WriteAsync(message, header);
                break;
        }
    }

    private MessageHeader? HeaderOf(LedgerMessage message)
    {
        if (_schedule.ExpiringPercent > 0 && _schedule.Chance(_schedule.ExpiringPercent))
        {
            var time = _schedule.PickOne(TimesToLive);
            (message.TimeToLive, message.ExpiresAt, message.MustFit) = (time, world.Clock.GetTimestamp() + time.Ticks, false);
            return new MessageHeader { Kind = message.Kind, TimeToLive = time };
        }

        return message.Kind switch
        {
            MessageKind.Prompt => MessageHeader.Prompt,
            MessageKind.Control => MessageHeader.Control,
            _ => null,
        };
    }

    private void WriteLatest(LedgerMessage message, long key, MessageHeader? header)
    {
        if (_schedule.Chance(50))
            TryWrite(message, () => world.Buffer.TryWriteLatest(_schedule.Handles[message.Handle], key, message.Payload(), header));
        else
            Write(message, () => world.Buffer.WriteLatest(_schedule.Handles[message.Handle], key, message.Payload(), header));
    }

    // An encoder that fails writes nothing, whatever it did to its memory.
    private void Encode(LedgerMessage message, MessageHeader? header)
    {
        var (handle, maxBytes) = (_schedule.Handles[message.Handle], message.Bytes + _schedule.PickOne([0, 0, 20]));
        var fault = _schedule.Chance(_schedule.EncoderFaultsPercent) ? _schedule.PickOne(Enum.GetValues<EncoderFault>()) : EncoderFault.None;
        var state = (Message: message, Fault: fault);
        message.MustFit &= fault == EncoderFault.None;
        var tries = _schedule.Chance(50);
        if (message.Key is { } key && tries)
            TryWrite(message, () => world.Buffer.TryWriteLatest(handle, key, maxBytes, state, EncodeInPlace, header));
        else if (message.Key is { } latest)
            Write(message, () => world.Buffer.WriteLatest(handle, latest, maxBytes, state, EncodeInPlace, header));
        else if (tries)
            TryWrite(message, () => world.Buffer.TryWrite(handle, maxBytes, state, EncodeInPlace, header));
        else
            Write(message, () => world.Buffer.Write(handle, maxBytes, state, EncodeInPlace, header));
        if (fault != EncoderFault.None && message.IsAccepted == true)
            world.Journal.Broken($"m{message.Id} was accepted, though its encoder failed: {fault}");
    }

    private int EncodeInPlace(Span<byte> destination, (LedgerMessage Message, EncoderFault Fault) state)
    {
        destination.Fill(0xFF);
        switch (state.Fault)
        {
            case EncoderFault.Throws:
                throw new InvalidOperationException("The schedule says that this encoder fails.");
            case EncoderFault.ReturnsTooMuch:
                return destination.Length + 1;
            case EncoderFault.ReturnsNegative:
                return -7;
            case EncoderFault.Writes:
                world.Buffer.Write(_schedule.Handles[state.Message.Handle], [1, 2, 3, 4]);
                break;
            case EncoderFault.Flushes:
                _ = world.Buffer.FlushAsync(_schedule.Handles[(state.Message.Handle + 1) % _schedule.Handles.Length]);
                break;
        }

        state.Message.WriteTo(destination);
        return state.Message.Bytes;
    }

    private void TryWrite(LedgerMessage message, Func<bool> write)
    {
        try
        {
            var isAccepted = write();
            if (!isAccepted && _schedule.Drops && !world.IsStopped)
                world.Ledger.Refused++;
            Decide(message, isAccepted);
        }
        catch (InvalidOperationException)
        {
            Decide(message, isAccepted: false);
        }
    }

    private void Write(LedgerMessage message, Action write)
    {
        try
        {
            write();
            Decide(message, !WasDropped(message));
        }
        catch (InvalidOperationException)
        {
            Decide(message, isAccepted: false);
        }
    }

    private void WriteAsync(LedgerMessage message, MessageHeader? header)
    {
        var cancellation = new CancellationTokenSource();
        world.Journal.Add($"m{message.Id} for h{message.Handle} is written asynchronously");
        try
        {
            var task = world.Buffer.WriteAsync(_schedule.Handles[message.Handle], message.Payload(), header, cancellation.Token);
            world.Track($"write of m{message.Id}", task, failure => Decide(message, failure is null && !WasDropped(message)), cancellation);
        }
        catch (Exception refusal) when (refusal is OutputOverflowException or ObjectDisposedException)
        {
            Decide(message, isAccepted: false);
        }

        if (message.IsAccepted is not null)
            return;
        // Its time begins when it is accepted.
        message.ExpiresAt = long.MaxValue;
        NeighbourRules.CheckWait(world, message);
        // While a writer waits for capacity, nothing is held back.
        world.Book.Disturb(handle: null);
    }

    // Write does not say that it dropped; the counter does. What was written and dropped inside its sends is in the ledger already.
    private bool WasDropped(LedgerMessage message)
    {
        if (world.Buffer.GetStatistics().RefusedMessages == world.Ledger.Refused)
            return false;
        world.Ledger.Refused++;
        message.IsDroppedAtWrite = true;
        return true;
    }

    private void Decide(LedgerMessage message, bool isAccepted)
    {
        world.Journal.Add($"m{message.Id} ({message.Bytes} B) for h{message.Handle} is {(isAccepted ? "accepted" : "turned away")}");
        NeighbourRules.CheckDecision(world, message, isAccepted);
        var mayBeHeld = world.Book.MayHold(message.Handle);
        world.Ledger.Decide(message, isAccepted, mayBeHeld);
        if (isAccepted && message.Key is not null)
            Supersede(message);
        if (isAccepted && !mayBeHeld)
            world.Losses.Use(message.Handle);
    }

    private void Supersede(LedgerMessage message)
    {
        var older = world.Ledger.FindOlder(message);
        if (world.Buffer.GetStatistics().SupersededMessages == world.Ledger.Superseded)
        {
            if (older is { IsAccepted: true } && message.Bytes + MostExtraBytes <= older.Bytes && message.Kind == older.Kind && message.TimeToLive is null && older.TimeToLive is null && _schedule.Options.Overflow != OverflowPolicy.DropOldest && !world.IsStopped)
                world.Journal.Broken($"m{older.Id} waits, and m{message.Id} did not take its place");
            return;
        }

        if (older is null)
        {
            world.Journal.Broken($"m{message.Id} took the place of a message that does not wait");
            return;
        }

        world.Journal.Add($"m{message.Id} takes the place of m{older.Id}");
        world.Ledger.Supersede(message, older);
        world.Losses.Supersede(message, older);
    }
}

/// <summary>What an encoder does wrong.</summary>
internal enum EncoderFault
{
    None,
    Throws,
    ReturnsTooMuch,
    ReturnsNegative,
    Writes,
    Flushes,
}
