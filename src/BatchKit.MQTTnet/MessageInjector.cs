using BatchKit.Diagnostics;
using MQTTnet;
using MQTTnet.Server;
using MQTTnet.Server.Internal;

namespace BatchKit.MQTTnet;

/// <summary>Injects one message at a time into the server, and waits for the application's handlers in it, within limits.</summary>
internal sealed class MessageInjector(MqttServer server, string senderClientId, TimeProvider timeProvider)
{
    // MQTT 5, section 2.4.
    private const int LeastRefusal = 0x80;

    private long _injectedMessages;

    /// <summary>How long the application's handlers have for a message: as long as a buffer's send by default.</summary>
    public static TimeSpan HandlerLimit { get; } = TimeSpan.FromSeconds(10);

    /// <summary>
    /// How long they have after a cancellation, or after one of them has hung. Well below the half second after which dispatch abandons a send: it would not learn what was injected, and send that again.
    /// </summary>
    public static TimeSpan HandlerPatience { get; } = TimeSpan.FromMilliseconds(200);

    /// <summary>The number of messages that the server accepted.</summary>
    public long InjectedMessages => Interlocked.Read(ref _injectedMessages);

    /// <summary>Injects a message and returns why it was refused; null when it was not.</summary>
    /// <exception cref="TimeoutException">A handler has hung, and the token can't be cancelled; the message is left to the handler.</exception>
    public async ValueTask<string?> InjectAndFindRefusalAsync(MqttApplicationMessage message, CancellationToken cancellationToken)
    {
        // Dispatch has a limit of its own, and cancels.
        var limit = cancellationToken.CanBeCanceled ? Timeout.InfiniteTimeSpan : HandlerLimit;
        Task? injecting = null;
        try
        {
            injecting = Start(message);
            await WaitForHandlersAsync(injecting, limit, cancellationToken).ConfigureAwait(false);
            return FindRefusal(injecting);
        }
        catch (Exception exception) when (injecting is null or { IsFaulted: true } or { IsCanceled: true } && server.IsStarted)
        {
            return $"The application's MQTT server failed with {exception.GetType().Name}: {FailureText.MessageOf(exception)}";
        }
    }

    /// <summary>Injects a message and records its result.</summary>
    /// <returns>False when a handler has hung for the limit; the message is left to it.</returns>
    public ValueTask<bool> InjectAndRecordAsync(MqttApplicationMessage message, int index, PublishManyResults results, TimeSpan limit, CancellationToken cancellationToken)
    {
        try
        {
            var injecting = Start(message);
            if (!injecting.IsCompletedSuccessfully)
                return RecordSlowAsync(injecting, index, results, limit, cancellationToken);
            Record(injecting, index, results);
        }
        catch (Exception exception)
        {
            Fail(exception, index, results);
        }

        return ValueTask.FromResult(true);
    }

    private async ValueTask<bool> RecordSlowAsync(Task injecting, int index, PublishManyResults results, TimeSpan limit, CancellationToken cancellationToken)
    {
        try
        {
            await WaitForHandlersAsync(injecting, limit, cancellationToken).ConfigureAwait(false);
            Record(injecting, index, results);
        }
        catch (Exception exception) when (injecting.IsCompleted)
        {
            Fail(exception, index, results);
        }
        catch (TimeoutException exception)
        {
            Fail(exception, index, results);
            return false;
        }

        return true;
    }

    // The server waits for handlers of the application. After a cancellation a slow one has some time, so that nothing overtakes its message; the message of one that hangs is left to it, because it would hold up all others.
    private async ValueTask WaitForHandlersAsync(Task injecting, TimeSpan limit, CancellationToken cancellationToken)
    {
        try
        {
            await injecting.WaitAsync(limit, timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (TimeoutException exception) when (!injecting.IsCompleted)
        {
            Leave(injecting);
            throw new TimeoutException($"A handler of the application's MQTT server has kept the message for longer than {limit}. The message is injected when that handler ends.", exception);
        }
        catch (OperationCanceledException) when (cancellationToken.IsCancellationRequested)
        {
            await Task.WhenAny(injecting, Task.Delay(HandlerPatience, timeProvider, CancellationToken.None)).ConfigureAwait(false);
            if (!injecting.IsCompleted)
            {
                Leave(injecting);
                throw;
            }

            await injecting.ConfigureAwait(false);
        }
    }

    // Observed, so that a failure is not reported as unobserved.
    private static void Leave(Task injecting) => _ = injecting.ContinueWith(static late => late.Exception, TaskScheduler.Default);

    // Never cancelled: a cancelled call may have queued the message for some subscribers only.
    private Task Start(MqttApplicationMessage message) =>
        server.InjectApplicationMessage(new InjectedMqttApplicationMessage(message) { SenderClientId = senderClientId }, CancellationToken.None);

    private void Record(Task injected, int index, PublishManyResults results)
    {
        var result = ResultOf(injected);
        if (result is not null)
            results.Answer(index, (MqttClientPublishReasonCode)result.ReasonCode, result.ReasonString);
        _ = TryCount(result);
    }

    private string? FindRefusal(Task injected)
    {
        var result = ResultOf(injected);
        if (TryCount(result))
            return null;
        // Not tried again: the handler that refuses it is the application's, and what is before it in its batch would be injected twice.
        return $"The server answered {(MqttClientPublishReasonCode)result!.ReasonCode} ({result.ReasonCode}){(string.IsNullOrEmpty(result.ReasonString) ? "" : $": {result.ReasonString}")}.";
    }

    // The server declares a plain task, but the task's result contains the reason code, which an intercepting handler may set.
    private static DispatchApplicationMessageResult? ResultOf(Task injected) => injected is Task<DispatchApplicationMessageResult> { Result: { } result } ? result : null;

    /// <returns>False when the server refused the message.</returns>
    private bool TryCount(DispatchApplicationMessageResult? result)
    {
        if (result?.ReasonCode >= LeastRefusal)
            return false;
        Interlocked.Increment(ref _injectedMessages);
        return true;
    }

    // A handler of the application has thrown or hung, or the server has stopped.
    private static void Fail(Exception exception, int index, PublishManyResults results) =>
        results.Fail(index, new PublishManyResult(PublishManyOutcome.Failed, Reason: FailureText.MessageOf(exception), Error: exception));
}
