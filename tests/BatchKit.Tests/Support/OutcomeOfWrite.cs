namespace BatchKit.Tests.Support;

/// <summary>The three ways to write, and what each said, in a word or two.</summary>
internal static class OutcomeOfWrite
{
    public static (string Outcome, Task Task) Write(IOutputBuffer buffer, string method, OutputHandle handle, byte[] payload)
    {
        try
        {
            switch (method)
            {
                case nameof(IOutputBuffer.TryWrite):
                    return (buffer.TryWrite(handle, payload) ? "true" : "false", Task.CompletedTask);
                case nameof(IOutputBuffer.Write):
                    buffer.Write(handle, payload);
                    return ("returns", Task.CompletedTask);
                default:
                    var task = buffer.WriteAsync(handle, payload).AsTask();
                    if (!task.IsCompleted)
                        return ("waits", task);
                    task.GetAwaiter().GetResult();
                    return ("returns", task);
            }
        }
        catch (OutputOverflowException overflow)
        {
            Assert.Contains(overflow.LimitName, overflow.Message, StringComparison.Ordinal);
            Assert.Contains($"{overflow.LimitBytes}", overflow.Message, StringComparison.Ordinal);
            return ($"throws {overflow.LimitName}", Task.CompletedTask);
        }
    }
}
