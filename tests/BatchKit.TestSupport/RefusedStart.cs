using Microsoft.Extensions.Options;

namespace BatchKit.TestSupport;

/// <summary>The start of a host that its options stop.</summary>
public static class RefusedStart
{
    /// <summary>Returns what the options said. The host reports several that are broken in an <see cref="AggregateException"/>, which may be in another one: then the first of them.</summary>
    public static async Task<OptionsValidationException> OfAsync(Func<Task> start)
    {
        var exception = await Assert.ThrowsAnyAsync<Exception>(start);
        return Assert.IsType<OptionsValidationException>(FindIn(exception) ?? exception);
    }

    /// <summary>Returns the first refusal of options in an exception, or null if there is another error in it.</summary>
    public static OptionsValidationException? FindIn(Exception exception) => exception switch
    {
        OptionsValidationException refusal => refusal,
        AggregateException several when several.Flatten().InnerExceptions.All(static inner => inner is OptionsValidationException) => several.Flatten().InnerExceptions[0] as OptionsValidationException,
        _ => null,
    };
}
