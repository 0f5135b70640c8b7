using Microsoft.Extensions.Options;

namespace Shared;

/// <summary>Runs a program, and prints the help and the errors that its user can mend.</summary>
internal static class SampleProgram
{
    private const int StartFailed = 1;
    private const int UsageError = 2;

    /// <returns>The exit code.</returns>
    public static async Task<int> RunAsync(string[] arguments, string help, Func<Task<int>> run)
    {
        if (arguments.Any(argument => argument is "--help" or "-h" or "-?"))
        {
            await Console.Out.WriteAsync(help);
            return 0;
        }

        try
        {
            return await run();
        }
        catch (Exception exception) when (exception is UsageException or OptionsValidationException)
        {
            await Console.Error.WriteLineAsync($"{exception.Message}\nSee --help.");
            return UsageError;
        }
        catch (StartException exception)
        {
            await Console.Error.WriteLineAsync(exception.Message);
            return StartFailed;
        }
    }
}

/// <summary>The arguments or settings are wrong. The message is shown to the user.</summary>
internal sealed class UsageException(string message) : Exception(message);

/// <summary>What the program needs was not available in time, or is in use. The message is shown to the user.</summary>
internal sealed class StartException(string message, Exception? innerException = null) : Exception(message, innerException);
