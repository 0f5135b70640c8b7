namespace MudServer.Game;

/// <summary>A message of a command that has run, to be sent.</summary>
internal readonly record struct KeptMessage(OutputHandle Handle, ReadOnlyMemory<byte> Payload, MessageHeader? Header);

/// <summary>What is left of an answer when its command has run.</summary>
/// <param name="Messages">What is sent one by one.</param>
/// <param name="RestAsync">Runs the rest, such as a comparison, and returns its lines; null when there is none.</param>
/// <param name="Measure">Measures until all is sent; null without timing.</param>
internal sealed record SlowAnswer(IReadOnlyList<KeptMessage> Messages, Func<Task<IReadOnlyList<string>>>? RestAsync, CommandMeasure? Measure)
{
    public bool IsComplete => Messages.Count == 0 && RestAsync is null && Measure is null;
}

/// <summary>Completes the answers that wait for the broker or for a password's check, beside the game loop. Only the next line of the same connection waits for that; the lines of others go on.</summary>
internal sealed class SlowAnswers(GameInput input, IOutputBuffer output, TimeProvider timeProvider, ILogger<SlowAnswers> logger)
{
    private static readonly TimeSpan LongestWait = TimeSpan.FromSeconds(5);

    /// <summary>Begins to complete an answer. The input does not end before it is complete.</summary>
    public void Begin(Session session, SlowAnswer answer)
    {
        input.Pause(session.Handle);
        session.Answering = Task.Run(() => CompleteAsync(session.Handle, answer));
    }

    private async Task CompleteAsync(OutputHandle connection, SlowAnswer answer)
    {
        try
        {
            await SendEachAsync(connection, answer.Messages);
            List<string> lines = answer.RestAsync is null ? [] : [.. await answer.RestAsync()];
            if (answer.Measure is not null)
                lines.Add(answer.Measure.Describe(await TrySettleAsync()));
            if (lines.Count > 0)
                await TellAsync(connection, lines);
        }
        catch (Exception exception)
        {
            Log.CommandFailed(logger, exception);
        }
        finally
        {
            input.Resume(connection);
        }
    }

    private async Task SendEachAsync(OutputHandle connection, IReadOnlyList<KeptMessage> messages)
    {
        var waitsForEach = true;
        foreach (var message in messages)
        {
            await output.WriteAsync(message.Handle, message.Payload, message.Header);

            // A game that ends has no time left to wait for each.
            waitsForEach = waitsForEach && !input.IsCompleted && await WaitsOnAsync(connection, message.Handle);
        }
    }

    /// <returns>False when it makes no sense to wait for further messages of the answer.</returns>
    private async Task<bool> WaitsOnAsync(OutputHandle connection, OutputHandle handle)
    {
        try
        {
            await output.FlushAsync(handle).AsTask().WaitAsync(LongestWait, timeProvider);
            return true;
        }
        catch (OutputDeliveryException)
        {
            // A client has disconnected. The buffer has counted the loss, and the game will get the message of the disconnect.
            return handle != connection;
        }
        catch (TimeoutException)
        {
            // The broker is unavailable.
            return false;
        }
    }

    private async Task<bool> TrySettleAsync()
    {
        try
        {
            await output.FlushAsync().AsTask().WaitAsync(LongestWait, timeProvider);
            return true;
        }
        catch (Exception exception) when (exception is TimeoutException or OutputDeliveryException)
        {
            return false;
        }
    }

    private async Task TellAsync(OutputHandle connection, List<string> lines)
    {
        using var scope = output.BeginBufferingScope(connection);
        foreach (var line in lines)
            await output.WriteAsync(connection, $"{GameOutput.ForPage(line)}\r\n");
        await output.WriteAsync(connection, "> "u8.ToArray(), MessageHeader.Prompt);
    }
}
