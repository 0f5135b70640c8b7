namespace BatchKit.Tests.Schedules;

/// <summary>Writes at random, in every way there is, and enters in the ledger what the buffer answered.</summary>
internal sealed class RandomWriter(World world)
{
    private readonly Schedule _schedule = world.Schedule;

    public void Write()
    {
        var handle = _schedule.Pick(_schedule.Handles.Length);
        var isPrompt = _schedule.Chance(10);
        var message = world.Ledger.Begin(handle, _schedule.Chance(3) ? 200 : _schedule.PickOne([4, 10, 30, 100]), isPrompt);
        var header = isPrompt ? MessageHeader.Prompt : null;
        switch (_schedule.Pick(4))
        {
            case 0:
                TryWrite(message, header);
                break;
            case 1:
                Write(message, header);
                break;
            default:
                WriteAsync(message, header);
                break;
        }
    }

    private void TryWrite(LedgerMessage message, MessageHeader? header)
    {
        try
        {
            var isAccepted = world.Buffer.TryWrite(_schedule.Handles[message.Handle], message.Payload(), header);
            if (!isAccepted && _schedule.Drops && !world.IsStopped)
                world.Ledger.Refused++;
            Decide(message, isAccepted);
        }
        catch (OutputOverflowException)
        {
            Decide(message, isAccepted: false);
        }
    }

    private void Write(LedgerMessage message, MessageHeader? header)
    {
        try
        {
            world.Buffer.Write(_schedule.Handles[message.Handle], message.Payload(), header);
            Decide(message, !WasDropped());
        }
        catch (Exception refusal) when (refusal is OutputOverflowException or ObjectDisposedException)
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
            world.Track($"write of m{message.Id}", task, failure => Decide(message, failure is null && !WasDropped()), cancellation);
        }
        catch (Exception refusal) when (refusal is OutputOverflowException or ObjectDisposedException)
        {
            Decide(message, isAccepted: false);
        }
    }

    // Write does not say that it dropped; the counter does. What was written and dropped inside its sends is in the ledger already.
    private bool WasDropped()
    {
        if (world.Buffer.GetStatistics().RefusedMessages == world.Ledger.Refused)
            return false;
        world.Ledger.Refused++;
        return true;
    }

    private void Decide(LedgerMessage message, bool isAccepted)
    {
        world.Journal.Add($"m{message.Id} ({message.Bytes} B) for h{message.Handle} is {(isAccepted ? "accepted" : "turned away")}");
        world.Ledger.Decide(message, isAccepted);
    }
}
