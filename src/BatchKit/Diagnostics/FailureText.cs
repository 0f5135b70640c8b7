namespace BatchKit.Diagnostics;

/// <summary>Reads the text of an exception that foreign code threw. Its members are foreign code too, and may throw: the text of one that looks up a resource does when resources are trimmed away.</summary>
/// <remarks>Every text of such an exception is read here. Call it outside every lock.</remarks>
internal static class FailureText
{
    /// <summary>The exception's message; a sentence with its type when the message can't be read.</summary>
    public static string MessageOf(Exception failure)
    {
        ArgumentNullException.ThrowIfNull(failure);
        try
        {
            if (failure.Message is { } message)
                return message;
        }
        catch (Exception)
        {
            // Nothing is hidden: the text below names the failure to read it.
        }

        return $"{failure.GetType().Name}, whose message can't be read.";
    }

    /// <summary>The innermost exception.</summary>
    public static Exception CauseOf(Exception failure)
    {
        ArgumentNullException.ThrowIfNull(failure);
        return CausesOf(failure).Last();
    }

    /// <summary>The exception and what it wraps, from the outside to the innermost.</summary>
    public static IEnumerable<Exception> CausesOf(Exception? failure)
    {
        for (; failure is not null; failure = failure.InnerException)
            yield return failure;
    }

    /// <summary>The outermost of these causes that is a <typeparamref name="T"/>; null when none is.</summary>
    public static T? Find<T>(Exception? failure)
        where T : Exception => CausesOf(failure).OfType<T>().FirstOrDefault();

    /// <summary>The exception's type and message.</summary>
    public static string Describe(Exception failure)
    {
        ArgumentNullException.ThrowIfNull(failure);
        return $"{failure.GetType().Name}: {MessageOf(failure)}";
    }

    /// <summary>False when a logger that formats the exception, or an exception inside it, would throw.</summary>
    public static bool IsReadable(Exception failure)
    {
        ArgumentNullException.ThrowIfNull(failure);
        try
        {
            foreach (var inner in CausesOf(failure))
                _ = (inner.Message, inner.StackTrace, inner.Source, inner.HelpLink, inner.Data.Count);
            return failure.ToString() is not null;
        }
        catch (Exception)
        {
            return false;
        }
    }
}
